"""Modules of pipelines are declared in the environment and in the project's pyproject.toml."""

import os
import sys
from pathlib import Path

import pytest

from eos_assets.errors import EosError
from eos_assets.platform.project import declared_modules, make_importable, project_root
from eos_assets.platform.settings import Settings


def test_modules_of_the_environment_come_before_those_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.eos]\nmodules = ["mine.pipelines", "theirs"]\n')
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    assert Settings.load({}).modules == ("mine.pipelines", "theirs")
    assert Settings.load({"EOS_MODULES": "first, theirs"}).modules == ("first", "theirs", "mine.pipelines")


def test_a_project_need_not_declare_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert declared_modules(tmp_path) == ()
    (tmp_path / "pyproject.toml").write_text("[tool.other]\n")
    assert declared_modules(tmp_path) == ()


def test_this_repository_declares_the_pipelines_of_the_mission() -> None:
    assert declared_modules(project_root(Path(__file__).parent)) == ("eos_assets.pipelines",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[tool.eos]\nmodule = ["a"]', r"\[tool.eos\] has no setting module\.\n.*Did you mean modules\?"),
        ('[tool.eos]\nmodules = "a"', r"modules='a' is not valid"),
        ("[tool.eos]\nmodules = [1]", r"modules=\[1\] is not valid"),
        ('[tool.eos]\nmodules = ["src/mine.py"]', r"src/mine\.py is not the name of a module"),
        ("[tool.eos", "cannot be read"),
    ],
)
def test_a_wrong_declaration_is_refused_with_the_name_of_the_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(EosError, match=message) as error:
        declared_modules(tmp_path)
    assert str(tmp_path / "pyproject.toml") in error.value.problem


def test_modules_beside_the_user_are_importable_here_and_in_child_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    inside = tmp_path / "inside"
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}relative")
    make_importable(inside)
    assert sys.path[-2:] == [str(inside), str(tmp_path)]
    expected = [str(tmp_path), str(Path("relative").absolute()), str(inside)]
    assert os.environ["PYTHONPATH"].split(os.pathsep) == expected
