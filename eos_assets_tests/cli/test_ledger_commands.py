"""`eos history` and `eos exporter --once`: they read the ledger, and need no Spark."""

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from eos_assets.kafka.connection import Connection
from eos_assets.log.ledger import Genesis
from eos_assets.platform.loopback import LOOPBACK
from eos_assets_tests.cli.ledger_pipelines import call, declared, write_ledger
from eos_assets_tests.metrics.test_totals import entry, repair_of

FIRST, SECOND = "0f4a8c1e-first", "7b21d9aa-second"


def test_the_history_of_a_pipeline_is_that_of_its_ledger(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with declared(connection, tmp_path, monkeypatch) as name:
        assert f"{name} has committed nothing yet. `eos run {name}` runs it." in call("history", name).stdout
        assert json.loads(call("history", name, "--json").stdout) == []
        first, second = {"run": FIRST, "ended_ms": 60_000}, {"run": SECOND, "began_ms": 61_000, "ended_ms": 64_500}
        write_ledger(
            connection,
            name,
            Genesis(name, 0, 0, {}),
            Genesis(name, 1, 5, {}),
            entry(0, 10, **first),
            entry(10, 30, **first, dead=2, task_attempt=1),
            replace(entry(5, 9, **first), partition=1),
            replace(entry(9, 11, **second, run_attempt=3, code_version="2"), partition=1),
            repair_of(0, 3, 4),
        )
        runs = json.loads(call("history", name, "--json").stdout)
        kinds = [(run["kind"], run["run"], run["transactions"]) for run in runs]
        assert kinds == [("run", FIRST, 3), ("run", SECOND, 1), ("repair", "repairing", 1)]
        assert runs[2]["ranges"] == [{"partition": 0, "start": 3, "next": 5}]
        ranges = [{"partition": 0, "start": 0, "next": 30}, {"partition": 1, "start": 5, "next": 9}]
        assert (runs[0]["ranges"], runs[0]["records_in"], runs[0]["dead"]) == (ranges, 34, 2)
        assert (runs[0]["task_attempt"], runs[1]["run_attempt"], runs[1]["code_versions"]) == (2, 3, ["2"])
        assert (runs[1]["began_ms"], runs[1]["ended_ms"]) == (61_000, 64_500)
        table = call("history", name, "--limit", "2").stdout
        assert "1970-01-01 00:01:04 UTC" in table
        assert "1 [9, 11)" in table
        assert "0 [0, 30)" not in table
        assert "The newest 2 of 3 runs; --limit shows more." in table
        samples = json.loads(call("exporter", "--once", "--json").stdout)
        commits = {s["labels"]["partition"]: s["value"] for s in samples if s["name"] == "eos_commits_total"}
        assert commits == {"0": 2, "1": 2}
        assert f'eos_dead_letters_total{{partition="0",pipeline="{name}"}} 3.0' in call("exporter", "--once").stdout


def test_what_cannot_be_shown_is_refused_with_a_remedy(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EOS_BOOTSTRAP_SERVERS", connection.bootstrap_servers)
    monkeypatch.setenv("EOS_MODULES", "eos_assets.pipelines")
    assert "Did you mean squares?" in call("history", "square", status=1).stderr
    assert "Invalid value for '--limit'" in call("history", "squares", "--limit", "0", status=2).stderr
    assert "Add --once." in call("exporter", "--json", status=1).stderr
    assert "There is no pipeline square" in call("exporter", "--pipeline", "square", status=1).stderr
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = str(taken.getsockname()[1])
        error = call("exporter", "--port", port, status=1).stderr
    assert f"Port {port}, wanted for the exporter of metrics, is taken by process" in error
