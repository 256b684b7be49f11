"""Pipelines are found in named modules, in packages and in installed distributions, and only there."""

import re
from pathlib import Path

import pytest

from eos_assets.declare.registry import choose_pipelines, find_pipeline, find_pipelines
from eos_assets.errors import EosError

MODULE = """
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic

@pipeline(source=Topic("in"), sink=Topic("{name}-out"))
def {name}(records):
    return records
"""
MISSION = "eos_assets.pipelines"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def write(folder: Path, module: str, name: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(MODULE.format(name=name))
    return module


def test_a_pipeline_of_a_named_module_is_found(folder: Path) -> None:
    pipelines = find_pipelines([write(folder, "eos_test_mine", "mine")])
    assert pipelines["mine"].names().ledger == "eos.mine.ledger"


def test_the_pipelines_of_this_project_are_found_only_when_they_are_named(folder: Path) -> None:
    mission = {"squares", "file_transactions", "balances"}
    assert mission & set(find_pipelines([write(folder, "eos_test_alone", "alone")])) == set()
    assert mission <= set(find_pipelines([MISSION]))


def test_a_package_includes_all_its_modules(folder: Path) -> None:
    package = folder / "eos_test_package"
    write(package, "__init__", "outer")
    write(package, "module", "inner")
    write(package / "deeper", "__init__", "deep")
    write(package / "deeper", "module", "deepest")
    (package / "__main__.py").write_text("raise SystemExit('not a module to import')")
    assert {"outer", "inner", "deep", "deepest"} <= set(find_pipelines(["eos_test_package"]))


def test_a_pipeline_of_an_installed_package_is_found(folder: Path) -> None:
    module = write(folder, "eos_test_theirs", "theirs")
    package = folder / "eos_test_theirs-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: eos-test-theirs\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[eos_assets.pipelines]\ntheirs = {module}\n")
    assert "theirs" in find_pipelines()


def test_two_pipelines_of_one_name_are_refused(folder: Path) -> None:
    with pytest.raises(EosError, match="Two pipelines are named squares"):
        find_pipelines([MISSION, write(folder, "eos_test_again", "squares")])


def test_an_unknown_pipeline_or_module_is_named() -> None:
    with pytest.raises(EosError, match=r"There is no pipeline nosuch\.\n.*squares"):
        find_pipeline("nosuch", [MISSION])
    with pytest.raises(EosError, match=r"There is no pipeline sqares\.\n.*Did you mean squares\?"):
        find_pipeline("sqares", [MISSION])
    with pytest.raises(EosError, match=r"Module no\.such cannot be imported"):
        find_pipelines(["no.such"])


@pytest.mark.parametrize(
    ("line", "problem", "remedy"),
    [
        (
            "import nosuch_module",
            "raises ModuleNotFoundError: No module named 'nosuch_module'",
            "Install nosuch_module",
        ),
        ("from math import nosuch", "raises ImportError: cannot import name 'nosuch'", "Correct the module"),
        ("len(5)", r"raises TypeError: object of type 'int' has no len\(\)", "Correct the module"),
        ("{}['eur']", "raises KeyError: 'eur'", "Correct the module"),
    ],
)
def test_a_module_that_raises_is_named_with_its_line(folder: Path, line: str, problem: str, remedy: str) -> None:
    file = folder / "eos_test_raises.py"
    file.write_text(f"\n{line}\n")
    with pytest.raises(EosError, match=rf"Module eos_test_raises {problem}") as error:
        find_pipelines(["eos_test_raises"])
    assert f"({file}, line 2: {line})." in error.value.problem
    assert error.value.remedy.startswith(remedy)


def test_an_invalid_declaration_is_named_with_its_line(folder: Path) -> None:
    file = folder / "eos_test_invalid.py"
    file.write_text("import eos_assets as eos\n\nlarge = eos.Topic('large', partitions=0)\n")
    with pytest.raises(EosError) as error:
        find_pipelines(["eos_test_invalid"])
    line = "large = eos.Topic('large', partitions=0)"
    assert error.value.problem == f"Topic large: partitions=0 is not valid ({file}, line 3: {line})."
    assert error.value.remedy == "Use a number, at least 1."


def test_without_any_pipeline_the_error_names_the_ways_to_declare_one(folder: Path) -> None:
    (folder / "eos_test_empty.py").write_text("")
    assert find_pipelines(["eos_test_empty"]) == {}
    for modules, problem in (([], "No pipeline was found."), (["eos_test_empty"], "eos_test_empty declares none")):
        with pytest.raises(EosError, match=re.escape(problem)) as error:
            choose_pipelines([], modules)
        assert all(way in error.value.remedy for way in ("--module", "EOS_MODULES", "[tool.eos]"))


def test_all_pipelines_are_chosen_unless_some_are_named() -> None:
    assert {"squares", "balances"} <= {pipeline.name for pipeline in choose_pipelines([], [MISSION])}
    assert [pipeline.name for pipeline in choose_pipelines(["squares"], [MISSION])] == ["squares"]
