"""The version of a pipeline's code: a digest of all that its author wrote and that decides what goes where."""

import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from eos_assets.kafka.topics import Topic

#: Constants of these kinds are told by their text; a set has no order, so it gets one.
PLAIN = (bool, int, float, str, bytes, tuple, list, dict)


def code_version(function: Callable[..., Any], sinks: Sequence[Topic]) -> str:
    """Covers the function, the functions and plain constants of its module that it uses, and the sinks' partitions."""
    places = ",".join(f"{sink.name}/{sink.partitions}" for sink in sinks)
    text = "\n".join(texts(function, set()))
    return hashlib.sha256(f"{places}\n{text}".encode()).hexdigest()[:12]


def texts(function: Callable[..., Any], seen: set[str]) -> Iterator[str]:
    try:
        yield inspect.getsource(function)
    except (OSError, TypeError):
        yield function.__qualname__
    if not isinstance(function, FunctionType):
        return
    for name in sorted(names_in(function.__code__) - seen):
        seen.add(name)
        value = function.__globals__.get(name)
        value = getattr(value, "func", value)  # a UDF holds its function
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            yield from texts(value, seen)
        elif isinstance(value, set | frozenset):
            yield f"{name} = {sorted(map(repr, value))}"
        elif isinstance(value, PLAIN):
            yield f"{name} = {value!r}"


def names_in(code: CodeType) -> set[str]:
    """The names that a function uses, with those inside its inner functions."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*(names_in(constant) for constant in inner))
