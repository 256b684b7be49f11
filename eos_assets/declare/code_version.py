"""The version of a pipeline's code: a digest of all that its author wrote and that decides what goes where."""

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError

#: Constants of these kinds are told by their text; so are Spark's types, which need no import here.
PLAIN = (bool, int, float, str, bytes, type(None))
TOLD = (*PLAIN, re.Pattern, Decimal, date, time, timedelta, tzinfo, Enum)
SPARK_TYPES = "pyspark.sql.types"
#: A text that is another one in every process.
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def code_version(function: Callable[..., Any], sinks: Sequence[Topic]) -> str:
    """Covers the function, the functions and plain constants of its package that it uses, what it was made with, and
    the sinks' partitions."""
    places = ",".join(f"{sink.name}/{sink.partitions}" for sink in sinks)
    text = "\n".join(Texts(package_of(plain_function(function))).of(function))
    return hashlib.sha256(f"{places}\n{text}".encode()).hexdigest()[:12]


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside a partial one, or behind a method."""
    while isinstance(function, partial | MethodType):
        function = function.func if isinstance(function, partial) else function.__func__
    return function


def name_of(function: Callable[..., Any]) -> str:
    """Empty for an object that has none."""
    return str(getattr(plain_function(function), "__name__", ""))


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
        if isinstance(function, partial):
            yield from self.of(function.func)
            yield from self.meaning("arguments", function.args)
            yield from self.meaning("arguments", function.keywords)
            return
        function = plain_function(function)
        if any(function is known for known in self.functions):
            return
        self.functions.append(function)
        yield source_of(function)
        if not isinstance(function, FunctionType):
            return
        yield from self.made_with(function)
        names = names_in(function.__code__)
        yield from self.among(names, function.__globals__)
        for name in sorted(names):
            module = function.__globals__.get(name)
            if isinstance(module, ModuleType) and package_of(module) == self.package:
                yield from self.among(names, vars(module))

    def made_with(self, function: FunctionType) -> Iterator[str]:
        """What a factory gave it: one text makes many functions."""
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not set yet
                continue
            yield from self.meaning(name, value)
        yield from self.meaning("defaults", function.__defaults__ or ())
        yield from self.meaning("defaults", function.__kwdefaults__ or {})

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
        if isinstance(value, FunctionType | MethodType | partial):
            if package_of(plain_function(value)) == self.package:
                yield from self.of(value)
        elif isinstance(value, TOLD) or type(value).__module__ == SPARK_TYPES:
            if not ADDRESS.search(repr(value)):
                yield f"{name} = {value!r}"
        elif isinstance(value, set | frozenset):
            yield f"{name} = {sorted(text for text in map(repr, value) if not ADDRESS.search(text))}"
        elif isinstance(value, dict):
            for key, part in value.items():
                yield from self.meaning(f"{name}[{key!r}]" if isinstance(key, PLAIN) else name, part)
        elif isinstance(value, tuple | list):
            for number, part in enumerate(value):
                yield from self.meaning(f"{name}[{number}]", part)


def function_in(value: Any) -> Any:
    """A UDF holds its function. Only what is its own counts: a frame would ask Spark for a column of that name."""
    return getattr(value, "__dict__", {}).get("func", value)


def source_of(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError) as failure:
        name = getattr(function, "__qualname__", None)
        if name is None:
            raise EosError(
                f"{type(function).__qualname__} is an object that is called like a function: nobody can tell the "
                "version of its code.",
                "Declare a function, or give a code_version.",
            ) from failure
        return str(name)


def names_in(code: CodeType) -> set[str]:
    """The names that a function uses, with those inside its inner functions."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*(names_in(constant) for constant in inner))
