"""The imports of the project are as docs/architecture.md describes them."""

import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("eos_assets", exclude_type_checking_imports=True)


def cycle(imports: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_through_others(graph: grimp.ImportGraph) -> None:
    assert cycle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) == []


def test_no_package_imports_itself_through_others(graph: grimp.ImportGraph) -> None:
    for package in graph.find_children("eos_assets"):
        graph.squash_module(package)
    packages = graph.modules - {"eos_assets"}
    assert cycle({name: graph.find_modules_directly_imported_by(name) - {name} for name in packages}) == []


@pytest.mark.parametrize("package", ["platform.settings", "files", "verify", "run", "orchestration", "experiment"])
def test_the_worker_imports_nothing_of(package: str, graph: grimp.ImportGraph) -> None:
    """What a task imports must be on every executor."""
    chain = graph.find_shortest_chain("eos_assets.sink.task", f"eos_assets.{package}", as_packages=True)
    assert chain is None


def test_only_pipelines_import_what_users_import(graph: grimp.ImportGraph) -> None:
    """The contract of layers does not cover the package itself, which imports the proof."""
    importers = graph.find_modules_that_directly_import("eos_assets")
    assert {module.split(".")[1] for module in importers} <= {"pipelines"}


def test_only_the_platform_side_imports_dagster() -> None:
    graph = grimp.build_graph("eos_assets", include_external_packages=True, exclude_type_checking_imports=True)
    packages = {module.split(".")[1] for module in graph.find_modules_that_directly_import("dagster")}
    assert packages <= {"orchestration", "defs", "definitions", "cli", "local"}


def test_the_picture_and_the_way_of_one_record_are_up_to_date() -> None:
    script = [sys.executable, str(ROOT / "docs" / "architecture.py"), "--check"]
    run = subprocess.run(script, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
