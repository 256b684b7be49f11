"""The version of a transform covers what decides its outputs, and nothing that differs between processes."""

import importlib
import linecache
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructType

from eos_assets.declare.code_version import SourceCollector, code_version
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError


def test_the_code_version_covers_what_the_transform_uses() -> None:
    text = """
LIMIT = 3
KNOWN = {"b", "a"}
def helper(x): return x + LIMIT
def other(x): return x
def transform(records): return [helper(x) for x in records if x in KNOWN]
"""

    def version(source: str) -> str:
        module: dict[str, Any] = {"__name__": "example"}
        exec(source, module)
        linecache.cache["example"] = (len(source), None, source.splitlines(keepends=True), "example")
        exec(compile(source, "example", "exec"), module)
        return code_version(module["transform"], [Topic("t")])

    same = version(text)
    assert version(text) == same
    assert version(text.replace("def other(x): return x", "def other(x): return 1")) == same, "it does not use that"
    for old, new in (
        ("LIMIT = 3", "LIMIT = 4"),
        ('"b", "a"', '"a"'),
        ("x + LIMIT", "x - LIMIT"),
        ("[helper", "[-helper"),
    ):
        assert version(text.replace(old, new)) != same, old


def test_the_code_version_follows_functions_through_the_package_and_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether they are imported by name, through their module, or held in a table."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    files = {
        "mine/__init__.py": "",
        "mine/named.py": "def named(x): return x",
        "mine/inside.py": "FACTOR = 2\ndef doubled(x): return x * FACTOR",
        "mine/table.py": "def listed(x): return x\nKINDS = {'a': listed}",
        "others.py": "def foreign(x): return x",
        "mine/pipe.py": "from mine import inside\nfrom mine.named import named\nfrom mine.table import KINDS\n"
        "from others import foreign\n"
        "def transform(records): return KINDS['a'](named(inside.doubled(foreign(records))))",
    }

    def version(**changed: str) -> str:
        for name, text in {**files, **changed}.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        linecache.clearcache()
        importlib.invalidate_caches()
        for name in [name for name in sys.modules if name.partition(".")[0] in ("mine", "others")]:
            del sys.modules[name]
        return code_version(importlib.import_module("mine.pipe").transform, [Topic("t")])

    same = version()
    assert version() == same
    assert version(**{"others.py": "def foreign(x): return 0 + x"}) == same, "another package"
    for name, old, new in (
        ("mine/named.py", "return x", "return -x"),
        ("mine/inside.py", "x *", "x +"),
        ("mine/inside.py", "FACTOR = 2", "FACTOR = 3"),
        ("mine/table.py", "return x", "return -x"),
    ):
        assert version(**{name: files[name].replace(old, new)}) != same, (name, new)


def test_the_project_s_own_versions_are_the_same_in_every_process() -> None:
    script = (
        "from eos_assets.declare.registry import find_pipelines\n"
        "print([p.code_version for p in find_pipelines(['eos_assets.pipelines']).values()])"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True)
        for seed in ("1", "2")
    ]
    assert runs[0].stdout
    assert runs[0].stdout == runs[1].stdout


def scaled(factor: Any, table: Any = ()) -> Callable[..., Any]:
    def transform(records: Any) -> Any:
        return [record * factor for record in records if record not in table]

    return transform


def with_defaults(factor: int, *, unit: int) -> Callable[..., Any]:
    def transform(records: Any, factor: int = factor, *, unit: int = unit) -> Any:
        return [record * factor * unit for record in records]

    return transform


def multiply(factor: int, records: Any, unit: int = 1) -> Any:
    return [record * factor * unit for record in records]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (scaled(2), scaled(3)),
        (scaled(2, {"a": [1]}), scaled(2, {"a": [2]})),
        (scaled(Decimal("1.5")), scaled(Decimal("2.5"))),
        (scaled(re.compile("a")), scaled(re.compile("b"))),
        (scaled(date(2026, 1, 1)), scaled(date(2026, 1, 2))),
        (scaled(StructType().add("a", LongType())), scaled(StructType().add("b", LongType()))),
        (scaled(scaled(2)), scaled(scaled(3))),
        (scaled(partial(multiply, 2)), scaled(partial(multiply, 3))),
        (with_defaults(2, unit=1), with_defaults(3, unit=1)),
        (with_defaults(2, unit=1), with_defaults(2, unit=2)),
        (partial(multiply, 2), partial(multiply, 3)),
        (partial(multiply, 2, unit=1), partial(multiply, 2, unit=2)),
    ],
)
def test_the_code_version_covers_what_a_function_was_created_with(one: Any, other: Any) -> None:
    versions = [code_version(function, [Topic("t")]) for function in (one, one, other)]
    assert versions[0] == versions[1]
    assert versions[0] != versions[2]


class Anything:
    """An object whose repr differs in every process."""


def test_no_address_in_memory_is_in_the_code_version() -> None:
    class Kind(Enum):
        THING = Anything()

    function = scaled(Anything(), [Kind.THING, {Anything(), multiply}, Anything])
    texts = "\n".join(SourceCollector("eos_assets_tests").collect(function))
    assert "def transform" in texts
    assert " at 0x" not in texts


def test_no_attribute_of_a_frame_in_a_closure_is_read() -> None:
    class Frame:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    assert code_version(scaled(Frame()), [Topic("t")]) == code_version(scaled(Frame()), [Topic("t")])


def test_a_partial_function_may_be_declared_and_a_callable_object_needs_a_version() -> None:
    class CalledLikeAFunction:
        def __call__(self, records: Any) -> Any:
            return records

    declared = pipeline(source=Topic("s"), sink=Topic("t"))(partial(multiply, 2))
    assert declared.name == "multiply"
    with pytest.raises(EosError, match=r"version of its code cannot be determined.*\n.*declare code_version"):
        pipeline(source=Topic("s"), sink=Topic("t"), name="p")(CalledLikeAFunction())
    assert (
        pipeline(source=Topic("s"), sink=Topic("t"), name="p", code_version="1")(CalledLikeAFunction()).code_version
        == "1"
    )


def test_a_code_version_may_be_declared() -> None:
    given = pipeline(source=Topic("s"), sink=Topic("t"), name="p", code_version="2026-11")(lambda records: records)
    assert given.code_version == "2026-11"


def test_functions_that_are_defined_below_the_pipeline_are_covered() -> None:
    """They do not exist yet when the decorator is called."""

    def version_with(body: str) -> str:
        text = f"""
import eos_assets as eos

@eos.pipeline(source="s", sink="t")
def p(records):
    return helper(records)

def helper(records):
    return {body}
"""
        module: dict[str, Any] = {"__name__": "below"}
        linecache.cache["below"] = (len(text), None, text.splitlines(keepends=True), "below")
        exec(compile(text, "below", "exec"), module)
        return str(module["p"].code_version)

    assert version_with("records") == version_with("records")
    assert version_with("records") != version_with("records.limit(1)")
