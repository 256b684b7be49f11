"""What the docs list is what the code has."""

import ast
import collections
import importlib.metadata
import re
from pathlib import Path

import pytest

from eos_assets.errors import MEANINGS, Code
from eos_assets.platform.jars import locked, version_of
from eos_assets.run.preflight.spark_version import TESTED, minor

ROOT = Path(__file__).parents[1]


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
    """One that nothing returns would be a promise that the code does not keep."""
    text = "\n".join(path.read_text() for path in (ROOT / "eos_assets").rglob("*.py") if path.name != "errors.py")
    assert [code.name for code in Code if f"Code.{code.name}" not in text] == []


def test_the_tested_versions_are_those_of_the_locks() -> None:
    (client,) = [name for name in locked() if name.startswith("spark/kafka-clients-")]
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


def test_each_class_has_a_name_of_its_own() -> None:
    """`Refused` was four classes."""
    names = collections.Counter(
        node.name
        for path in (ROOT / "eos_assets").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_reports_of_spark_are_read_in_one_place() -> None:
    """Names of Java classes and of Python's frames in a text decide something in one module alone."""
    reading = re.compile(r"Traceback \\\(|(Authorization|Authentication)Exception|ExecutorLost|PythonException")
    found = {path.name for path in (ROOT / "eos_assets").rglob("*.py") if reading.search(path.read_text())}
    assert found == {"spark_errors.py"}


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
