"""`--log-format` and `--log-level`: what is logged, and where."""

import json
import logging
from collections.abc import Iterator

import pytest

from eos_assets.cli.log_output import configure, logs_json, stderr_console
from eos_assets_tests.cli.ledger_pipelines import call

logger = logging.getLogger("eos_assets.run.run_log")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    configure("text", None)


def test_a_line_of_json_has_the_message_and_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json", None)
    fields = {"event": "commit", "pipeline": "squares", "partition": 1, "range": "[0, 9)", "run": "r", "attempt": 1}
    logger.info("committed %s", "[0, 9)", extra=fields)
    logger.debug("not at this level")
    stderr_console().print("a progress bar")
    (line,) = capsys.readouterr().err.splitlines()
    logged = json.loads(line)
    assert logged.pop("time").endswith("+00:00")
    common = {"level": "info", "logger": "eos_assets.run.run_log", "message": "committed [0, 9)"}
    assert logged == {**common, **fields}


def test_an_error_keeps_its_trace_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json", "debug")
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        logger.warning("failed", exc_info=True)
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: first\nsecond" in json.loads(line)["exception"]


def test_the_level_works_for_text_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure("text", "info")
    logger.info("shown")
    logger.debug("not shown")
    assert [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()] == ["INFO shown"]


def test_the_error_of_a_command_is_a_line_of_json() -> None:
    result = call("--log-format", "json", "history", "squares_", "--module", "eos_assets.pipelines", status=1)
    logged = json.loads(result.stderr)
    assert (logged["level"], logged["event"]) == ("error", "refusal")
    assert logged["message"] == "There is no pipeline squares_."
    assert "Did you mean squares?" in logged["remedy"]
    assert logs_json()
    assert "error: There is no pipeline" in call("history", "squares_", status=1).stderr
    assert not logs_json(), "the next command chooses again"
