"""Pipelines are found in named modules and installed packages, and two with one name are refused."""

from pathlib import Path

import pytest

from eos_assets.declare.registry import find_pipeline, find_pipelines
from eos_assets.errors import EosError

MODULE = """
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic

@pipeline(source=Topic("in"), sink=Topic("out"))
def {name}(records):
    return records
"""


def write(folder: Path, module: str, name: str) -> str:
    (folder / f"{module}.py").write_text(MODULE.format(name=name))
    return module


def test_a_pipeline_of_a_named_module_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    pipelines = find_pipelines([write(tmp_path, "eos_test_mine", "mine")])
    assert {"mine", "squares"} <= set(pipelines)
    assert pipelines["mine"].names().ledger == "eos.mine.ledger"


def test_a_pipeline_of_an_installed_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = write(tmp_path, "eos_test_theirs", "theirs")
    package = tmp_path / "eos_test_theirs-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: eos-test-theirs\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[eos_assets.pipelines]\ntheirs = {module}\n")
    assert "theirs" in find_pipelines()


def test_two_pipelines_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EosError, match="Two pipelines are named squares"):
        find_pipelines([write(tmp_path, "eos_test_again", "squares")])


def test_an_unknown_pipeline_or_module_is_named() -> None:
    with pytest.raises(EosError, match=r"There is no pipeline nosuch\.\n.*squares"):
        find_pipeline("nosuch")
    with pytest.raises(EosError, match=r"Module no\.such cannot be imported"):
        find_pipelines(["no.such"])
