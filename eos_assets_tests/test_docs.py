"""The docs agree with the code."""

import ast
import collections
import importlib.metadata
import re
from pathlib import Path

import pytest

from eos_assets.errors import MEANINGS, Code
from eos_assets.platform.jars import read_lock, version_of
from eos_assets.run.preflight.spark_version import TESTED, minor

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def rows(page: str, title: str) -> list[list[str]]:
    """The cells of the table whose first column has this title."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    (start,) = [number for number, line in enumerate(lines) if line.startswith(f"| {title} |")]
    table = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return table


def test_every_code_is_in_the_docs_as_it_is_in_the_code() -> None:
    listed = [
        [f"`{code}`", meaning.meaning, str(meaning.reaction), meaning.remedy] for code, meaning in MEANINGS.items()
    ]
    assert rows("error-codes.md", "code") == listed
    assert set(MEANINGS) == set(Code)


def test_every_code_is_used() -> None:
    """A code that no module returns would be documented without effect."""
    modules = set((ROOT / "eos_assets").rglob("*.py")) - {ROOT / "eos_assets" / "errors.py"}
    text = "\n".join(path.read_text() for path in modules)
    assert [code.name for code in Code if f"Code.{code.name}" not in text] == []


def test_the_tested_versions_are_those_of_the_locks() -> None:
    (client,) = [name for name in read_lock() if name.startswith("spark/kafka-clients-")]
    tested = {name: version for name, version, _ in rows("compatibility.md", "component")}
    assert tested == {
        **tested,
        "Spark": importlib.metadata.version("pyspark"),
        "Spark's Kafka connector": version_of("spark-sql-kafka-0-10_2.13"),
        "Delta Lake": version_of("delta-spark_4.2_2.13"),
        "Kafka client in Spark": client.removeprefix("spark/kafka-clients-").removesuffix(".jar"),
        "Kafka brokers": version_of("kafka_2.13"),
        "Kafka client in tasks": importlib.metadata.version("confluent-kafka"),
        "Dagster": importlib.metadata.version("dagster"),
    }
    assert (minor(tested["Spark"]),) == TESTED


@pytest.mark.parametrize("test", [row[2].strip("`") for row in rows("compatibility.md", "what it relies on")])
def test_the_tests_that_name_the_spark_version_exist_and_do(test: str) -> None:
    (text,) = [
        text for path in (ROOT / "eos_assets_tests").rglob("test_*.py") if f"def {test}(" in (text := path.read_text())
    ]
    body = text.partition(f"def {test}(")[2].partition("\ndef ")[0]
    assert f'spark.version.startswith("{TESTED[-1]}.")' in body


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_of_a_page_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_module_that_a_page_names_exists(page: Path) -> None:
    modules = [
        path
        for folder in ("eos_assets", "eos_assets_tests", "benchmarks", "docs")
        for path in (ROOT / folder).rglob("*.py")
    ]
    named = re.findall(r"`([a-z_/]+\.py)`", page.read_text())
    assert [name for name in named if not any(str(path).endswith(f"/{name}") for path in modules)] == []


def test_each_class_has_a_name_of_its_own() -> None:
    """A name that several classes share is ambiguous in a message, a trace and a search."""
    names = collections.Counter(
        node.name
        for path in (ROOT / "eos_assets").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_reports_of_spark_are_read_in_one_place() -> None:
    """Only one module decides by the names of Java classes or Python frames in a text."""
    reading = re.compile(r"Traceback \\\(|(Authorization|Authentication)Exception|ExecutorLost|PythonException")
    readers = {path.name for path in (ROOT / "eos_assets").rglob("*.py") if reading.search(path.read_text())}
    assert readers == {"spark_errors.py"}


def test_each_fault_that_a_test_cites_is_defined_and_no_other_is_called_tested() -> None:
    cited = {
        code
        for path in (ROOT / "eos_assets_tests").rglob("test_*.py")
        for code in re.findall(r"\bF\d{1,2}\b", path.read_text())
    }
    page = (ROOT / "docs" / "faults.md").read_text()
    defined = {row[0] for row in rows("faults.md", "code")}
    (untested,) = re.findall(r"Not tested yet: (.*)\.", page)
    assert cited == defined - set(re.findall(r"F\d+", untested))
