"""The version of a pipeline's code: a digest of all that its author wrote and that decides what goes where."""

import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from eos_assets.kafka.topics import Topic

#: Constants of these kinds are told by their text.
PLAIN = (bool, int, float, str, bytes, type(None))


def code_version(function: Callable[..., Any], sinks: Sequence[Topic]) -> str:
    """Covers the function, the functions and plain constants of its package that it uses, and the sinks' partitions."""
    places = ",".join(f"{sink.name}/{sink.partitions}" for sink in sinks)
    text = "\n".join(Texts(package_of(function)).of(function))
    return hashlib.sha256(f"{places}\n{text}".encode()).hexdigest()[:12]


def package_of(thing: Any) -> str:
    """The top-level package of a function or a module."""
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    return str(name).partition(".")[0]


class Texts:
    """The texts of functions of one package, and of what they use of it, each once."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.seen: set[tuple[str, str]] = set()
        self.functions: list[Callable[..., Any]] = []

    def of(self, function: Callable[..., Any]) -> Iterator[str]:
        if function in self.functions:
            return
        self.functions.append(function)
        try:
            yield inspect.getsource(function)
        except (OSError, TypeError):
            yield function.__qualname__
        if not isinstance(function, FunctionType):
            return
        names = names_in(function.__code__)
        yield from self.among(names, function.__globals__)
        for name in sorted(names):
            module = function.__globals__.get(name)
            if isinstance(module, ModuleType) and package_of(module) == self.package:
                yield from self.among(names, vars(module))

    def among(self, names: set[str], there: dict[str, Any]) -> Iterator[str]:
        """What these names mean in a module."""
        for name in sorted(names & set(there)):
            place = (str(there.get("__name__")), name)
            if place not in self.seen:
                self.seen.add(place)
                yield from self.meaning(name, there[name])

    def meaning(self, name: str, value: Any) -> Iterator[str]:
        """Never an address in memory: the same code has the same version in every process."""
        value = function_in(value)
        if isinstance(value, FunctionType):
            if package_of(value) == self.package:
                yield from self.of(value)
        elif isinstance(value, PLAIN):
            yield f"{name} = {value!r}"
        elif isinstance(value, set | frozenset):
            yield f"{name} = {sorted(map(repr, value))}"
        elif isinstance(value, dict):
            for key, part in value.items():
                yield from self.meaning(f"{name}[{key!r}]" if isinstance(key, PLAIN) else name, part)
        elif isinstance(value, tuple | list):
            for number, part in enumerate(value):
                yield from self.meaning(f"{name}[{number}]", part)


def function_in(value: Any) -> Any:
    """A UDF holds its function."""
    return getattr(value, "func", value)


def names_in(code: CodeType) -> set[str]:
    """The names that a function uses, with those inside its inner functions."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*(names_in(constant) for constant in inner))
