"""The docs agree with the code. What they print as Python runs: `test_snippets.py`."""

import ast
import collections
import importlib
import importlib.metadata
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from eos_assets.cli import SECTIONS, main
from eos_assets.declare.options import Options
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.stateful import stateful
from eos_assets.errors import MEANINGS, Code
from eos_assets.orchestration.checks import INVARIANTS, STATE_INVARIANT
from eos_assets.orchestration.pipeline_definitions import pipeline_definitions
from eos_assets.pipelines.squares import squares
from eos_assets.platform.jars import read_lock, version_of
from eos_assets.run.preflight.spark_version import TESTED, minor
from eos_assets.transform.result_schema import COLUMNS
from eos_assets.verify.proof import Proof
from eos_assets.verify.state_checker import NAME as STATE_NAME

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "docker" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
#: A fenced block with its language, and text between backticks, which may go on in the next line.
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
#: A line of a shell that calls `eos`.
SHELL_LINE = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(eos [a-z].*)$", re.MULTILINE)


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


def code_in(cell: str) -> list[str]:
    return [" ".join(code.split()) for code in CODE.findall(cell)]


def commands_in(page: Path) -> Iterator[str]:
    """The calls of `eos` in a page, in its text and in its blocks."""
    text = page.read_text()
    yield from (code for code in code_in(BLOCK.sub("", text)) if re.match(r"eos [a-z]", code))
    for language, block in BLOCK.findall(text):
        if language in ("", "sh"):
            yield from SHELL_LINE.findall(block)


def resolve(line: str) -> tuple[click.Command, list[str]]:
    """The command that a line calls, and what of the line does not exist."""
    command: click.Command = main
    context = click.Context(main, **main.context_settings)
    unknown = []
    for word in shlex.split(line, comments=True)[1:]:
        if word.startswith("-"):
            if word.partition("=")[0] not in options_of(command, context):
                unknown.append(word)
        elif isinstance(command, click.Group):
            found = command.get_command(context, word)
            if found is None:
                return command, [word]
            command, context = found, click.Context(found, parent=context)
    return command, unknown


def options_of(command: click.Command, context: click.Context | None = None) -> set[str]:
    parameters = command.get_params(context or click.Context(command))
    return {name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_and_option_that_a_page_names_exists(page: Path) -> None:
    assert [(line, unknown) for line in commands_in(page) if (unknown := resolve(line)[1])] == []


def test_the_commands_of_the_docs_are_those_of_the_help_under_the_same_headings() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    listed = {
        heading: list(dict.fromkeys(re.findall(r"^\| `eos ([a-z-]+)", text, re.MULTILINE)))
        for heading, text in sections.items()
        if heading in SECTIONS
    }
    assert listed == {heading: list(commands) for heading, commands in SECTIONS.items()}


def test_each_option_in_the_table_of_commands_is_one_of_its_command() -> None:
    unknown = []
    for row in re.findall(r"^\| (`eos [a-z].*) \|$", (ROOT / "docs" / "commands.md").read_text(), re.MULTILINE):
        command, _ = resolve(code_in(row)[0])
        unknown += [code for code in code_in(row) if code.startswith("--") and code not in options_of(command)]
    assert unknown == []


def test_a_command_that_does_not_exist_is_found() -> None:
    assert resolve("eos run squares --failures 0.3")[1] == ["--failures"]
    assert resolve("eos topics delete")[1] == ["delete"]


def test_the_options_of_a_pipeline_are_documented() -> None:
    documented = [name for row in rows("transforms.md", "option") for name in code_in(row[0])]
    named = {**inspect.signature(pipeline).parameters, **inspect.signature(stateful).parameters}
    assert sorted(documented) == sorted({*named, *Options.__annotations__} - {"options"})


def test_the_columns_of_a_result_are_documented() -> None:
    assert sorted(row[0].strip("`") for row in rows("transforms.md", "column")) == sorted([*COLUMNS, "origin"])


def test_all_of_a_proof_is_documented() -> None:
    documented = [code.partition("(")[0] for row in rows("transforms.md", "of the proof") for code in code_in(row[0])]
    assert sorted(documented) == sorted(name for name in vars(Proof) if not name.startswith("_"))


def test_the_invariants_are_in_the_docs_as_they_are_in_the_code() -> None:
    stated = {**INVARIANTS, STATE_NAME: STATE_INVARIANT}
    assert rows("platform.md", "invariant") == [[f"`{name}`", description] for name, (description, _) in stated.items()]


def test_the_jobs_and_sensors_of_a_pipeline_are_documented() -> None:
    definitions = pipeline_definitions([squares])
    for kind, defined in (("job", definitions.jobs), ("sensor", definitions.sensors)):
        listed = [row[0].strip("`").replace("<pipeline>", squares.name) for row in rows("platform.md", kind)]
        assert sorted(listed) == sorted(one.name for one in defined or ())


def test_the_pipeline_that_the_docs_explain_is_the_one_of_the_code() -> None:
    ((_, excerpt),) = [block for block in BLOCK.findall((ROOT / "docs" / "balances.md").read_text()) if block[0]]
    assert excerpt in (ROOT / "eos_assets" / "pipelines" / "balances.py").read_text()


def test_the_readme_is_read_in_a_minute() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


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
def test_each_link_to_a_heading_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())
    assert [link for link in links if link[1] not in anchors(page.parent / link[0] if link[0] else page)] == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


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


def test_each_deadline_of_the_docs_is_that_of_the_code() -> None:
    """Where a cell names a constant, the second column has its value."""
    compared = 0
    for row in rows("exactly-once.md", "what does not answer"):
        for module, _, name in (code.rpartition(".") for code in code_in(row[3])):
            if name.endswith(("_SECONDS", "_MS")) and module:
                value = getattr(importlib.import_module(f"eos_assets.{module}"), name)
                assert row[1] == f"{value / (1000 if name.endswith('_MS') else 1):.0f} s", name
                compared += 1
    assert compared == 10


def test_each_fault_names_its_tests_and_they_exist() -> None:
    for code, *_, cell in rows("faults.md", "code"):
        files = re.findall(r"\[([\w/.]+)\]\(\.\./eos_assets_tests/\1\)((?:,? `test_\w+`)+)", cell)
        assert files, code
        for file, names in files:
            text = (ROOT / "eos_assets_tests" / file).read_text()
            assert [name for name in code_in(names) if f"def {name}(" not in text] == [], code


def test_the_faults_that_tests_cite_are_those_that_are_defined() -> None:
    cited = {
        code
        for path in (ROOT / "eos_assets_tests").rglob("test_*.py")
        for code in re.findall(r"\bF\d{1,2}\b", path.read_text())
    }
    assert cited == {row[0] for row in rows("faults.md", "code")}
