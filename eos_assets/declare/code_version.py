"""The version of a pipeline's code: a digest of all code of its author that decides what is written, and where."""

import functools
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

CONSTANTS = (bool, int, float, str, bytes, type(None))
#: Types whose repr is the same in every process. Spark's data types are recognized by their module, without an import.
WITH_STABLE_REPR = (*CONSTANTS, re.Pattern, Decimal, date, time, timedelta, tzinfo, Enum)
SPARK_TYPES = "pyspark.sql.types"
#: An address in memory, which differs in every process.
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def code_version(function: Callable[..., Any], sinks: Sequence[Topic]) -> str:
    """A digest of the function, of the functions and constants of its package that it uses, of the values that it was
    created with, and of the sinks' partitions."""
    partitions = ",".join(f"{sink.name}/{sink.partitions}" for sink in sinks)
    text = "\n".join(SourceCollector(package_of(plain_function(function))).collect(function))
    return hashlib.sha256(f"{partitions}\n{text}".encode()).hexdigest()[:12]


class CodeVersion:
    """The digest of a pipeline's code, computed when it is first needed: functions that are defined below the pipeline
    do not exist before."""

    def __init__(self, function: Callable[..., Any], sinks: Sequence[Topic]) -> None:
        source_of(plain_function(function))  # refuses an object without source text where the pipeline is declared
        self._function = function
        self._sinks = tuple(sinks)

    @functools.cached_property
    def digest(self) -> str:
        return code_version(self._function, self._sinks)

    def __str__(self) -> str:
        return self.digest


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside a partial function or a method."""
    while isinstance(function, partial | MethodType):
        function = function.func if isinstance(function, partial) else function.__func__
    return function


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function; empty for an object that has none."""
    return str(getattr(plain_function(function), "__name__", ""))


def docstring_of(function: Callable[..., Any]) -> str:
    """The docstring of a function without its indentation; empty if it has none."""
    return inspect.getdoc(plain_function(function)) or ""


def package_of(thing: Any) -> str:
    """The top-level package of a function or a module."""
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    return str(name).partition(".")[0]


class SourceCollector:
    """Collects the source text of functions of one package, and of what they use of it, each once."""

    def __init__(self, package: str) -> None:
        self.package = package
        self._globals: set[tuple[str, str]] = set()
        self._functions: list[Callable[..., Any]] = []

    def collect(self, function: Callable[..., Any]) -> Iterator[str]:
        """The source of a function and of everything that it uses."""
        if isinstance(function, partial):
            yield from self.collect(function.func)
            yield from self._collect_value("arguments", function.args)
            yield from self._collect_value("arguments", function.keywords)
            return
        function = plain_function(function)
        if any(function is known for known in self._functions):
            return
        self._functions.append(function)
        yield source_of(function)
        if not isinstance(function, FunctionType):
            return
        yield from self._collect_bound_values(function)
        names = names_in(function.__code__)
        yield from self._collect_globals(names, function.__globals__)
        for name in sorted(names):
            module = function.__globals__.get(name)
            if isinstance(module, ModuleType) and package_of(module) == self.package:
                yield from self._collect_globals(names, vars(module))

    def _collect_bound_values(self, function: FunctionType) -> Iterator[str]:
        """The values of the closure and the defaults: one source text may create many functions."""
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not set yet
                continue
            yield from self._collect_value(name, value)
        yield from self._collect_value("defaults", function.__defaults__ or ())
        yield from self._collect_value("defaults", function.__kwdefaults__ or {})

    def _collect_globals(self, names: set[str], namespace: dict[str, Any]) -> Iterator[str]:
        """The values of these names in a module."""
        for name in sorted(names & set(namespace)):
            qualified = (str(namespace.get("__name__")), name)
            if qualified not in self._globals:
                self._globals.add(qualified)
                yield from self._collect_value(name, namespace[name])

    def _collect_value(self, name: str, value: Any) -> Iterator[str]:
        """A value as text, without addresses in memory: the same code has the same version in every process."""
        value = function_in(value)
        if isinstance(value, FunctionType | MethodType | partial):
            if package_of(plain_function(value)) == self.package:
                yield from self.collect(value)
        elif isinstance(value, WITH_STABLE_REPR) or type(value).__module__ == SPARK_TYPES:
            if not ADDRESS.search(repr(value)):
                yield f"{name} = {value!r}"
        elif isinstance(value, set | frozenset):
            yield f"{name} = {sorted(text for text in map(repr, value) if not ADDRESS.search(text))}"
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from self._collect_value(f"{name}[{key!r}]" if isinstance(key, CONSTANTS) else name, item)
        elif isinstance(value, tuple | list):
            for number, item in enumerate(value):
                yield from self._collect_value(f"{name}[{number}]", item)


def function_in(value: Any) -> Any:
    """The function of a UDF, otherwise the value. Read from `__dict__`, because a DataFrame would return a column."""
    return getattr(value, "__dict__", {}).get("func", value)


def source_of(function: Callable[..., Any]) -> str:
    """The source text of a function, or its name if there is none."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError) as failure:
        name = getattr(function, "__qualname__", None)
        if name is None:
            raise EosError(
                f"The transform is a callable object of the class {type(function).__qualname__}, and the version of "
                "its code cannot be determined.",
                "Declare a function, or declare code_version.",
            ) from failure
        return str(name)


def names_in(code: CodeType) -> set[str]:
    """The names that a function and its inner functions use."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*(names_in(constant) for constant in inner))
