"""The Python of the docs runs: its pipelines are declared, its unit tests pass, and its checks find what is wrong."""

import ast
import functools
import inspect
import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession

import eos_assets as eos

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/transforms.md", "docs/arrow.md", "docs/platform.md")
#: Both kinds of pipelines.
KINDS = eos.Pipeline | eos.ArrowPipeline
#: Check of a page → an output that it accepts, and one that it does not.
CHECKED = {
    ("README.md", "none_below_absolute_zero"): ("-40.0", "-300.0"),
    ("docs/transforms.md", "no_total_is_negative"): ("12.50", "-1.00"),
}


def python_of(page: str) -> str:
    """The Python of a page, each line with its number there."""
    inside, lines = False, []
    for line in (ROOT / page).read_text().splitlines():
        fence = re.fullmatch(r"```(\w*)", line)
        lines.append("" if fence or not inside else line)
        inside = fence.group(1) == "python" if fence else inside
    return "\n".join(lines) + "\n"


def unit_tests_of(page: str) -> list[str]:
    functions = [node.name for node in ast.parse(python_of(page)).body if isinstance(node, ast.FunctionDef)]
    return [name for name in functions if name.startswith("test_")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("snippets")


@functools.cache
def run_page(page: str, folder: Path) -> dict[str, Any]:
    """Run the Python of a page as one module, from a file, because a pipeline reads the source of its function."""
    file = folder / f"{Path(page).stem.lower()}.py"
    file.write_text(python_of(page))
    namespace: dict[str, Any] = {"__name__": file.stem}
    exec(compile(python_of(page), str(file), "exec"), namespace)
    return namespace


class OneDelivery(eos.Proof):
    """The proof of a pipeline that has written one output."""

    def __init__(self, delivered: DataFrame) -> None:
        object.__setattr__(self, "delivered", delivered)  # a proof is frozen

    @property
    def complete(self) -> bool:
        return True

    def deliveries(self) -> DataFrame:
        delivered: DataFrame = vars(self)["delivered"]
        return delivered


def deliver(spark: SparkSession, value: str) -> OneDelivery:
    record = (
        "named_struct('topic', 't', 'partition', 0, 'offset', 7L, 'key', binary('k'), "
        f"'value', binary('{value}'), 'headers', null, 'timestamp', null)"
    )
    return OneDelivery(spark.sql(f"SELECT {record} AS source, {record} AS output, 0L AS sequence"))


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page: str, folder: Path) -> None:
    declared = [value for value in run_page(page, folder).values() if isinstance(value, KINDS | dg.Definitions)]
    assert declared


@pytest.mark.parametrize(("page", "name"), [(page, name) for page in PAGES for name in unit_tests_of(page)])
def test_a_unit_test_of_a_page_passes(page: str, name: str, folder: Path, spark: SparkSession) -> None:
    unit_test = run_page(page, folder)[name]
    unit_test(*[spark] * len(inspect.signature(unit_test).parameters))  # that of an Arrow pipeline takes none


@pytest.mark.parametrize("page", ["README.md", "docs/transforms.md", "docs/arrow.md"])
def test_each_pipeline_of_a_page_is_tested(page: str, folder: Path) -> None:
    declared = [value.name for value in run_page(page, folder).values() if isinstance(value, KINDS)]
    assert sorted(f"test_{name}" for name in declared) == sorted(unit_tests_of(page))


@pytest.mark.parametrize(("page", "name"), CHECKED)
def test_a_check_of_a_page_finds_what_is_wrong(page: str, name: str, folder: Path, spark: SparkSession) -> None:
    accepted, refused = CHECKED[page, name]
    check = run_page(page, folder)[name]
    assert check(deliver(spark, accepted)).holds
    finding = check(deliver(spark, refused))
    assert not finding.holds
    assert finding.detail.startswith("1 ")
    assert "t/0/7" in finding.examples[0]


def test_each_check_of_a_page_is_tested(folder: Path) -> None:
    declared = {
        (page, check.name)
        for page in PAGES
        for value in run_page(page, folder).values()
        if isinstance(value, KINDS)
        for check in value.checks
    }
    assert declared == set(CHECKED)


def test_assets_of_a_user_are_downstream_of_a_pipeline(folder: Path) -> None:
    graph = run_page("docs/platform.md", folder)["defs"].resolve_asset_graph()
    assert graph.get(dg.AssetKey("report")).parent_keys == {dg.AssetKey("datasink")}
    assert dg.AssetKey("datasink") in graph.materializable_asset_keys
