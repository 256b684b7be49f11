"""F27: a short soak with every kind of fault, as a user runs it."""

import json
from pathlib import Path

import psutil
import pytest

from eos_assets.chaos.fault_plan import KINDS
from eos_assets_tests.cli.command import eos

pytestmark = pytest.mark.timeout(300)

SEED, MINUTES, EVERY = 11, 0.7, 5


def test_every_fault_strikes_and_nothing_is_lost_doubled_or_torn(home: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    options = ["--minutes", str(MINUTES), "--every", str(EVERY), "--seed", str(SEED), "--html", str(page), "--json"]
    run = eos("chaos", *options)
    soak = json.loads(run.stdout)
    assert soak["problems"] == []
    assert set(soak["struck"]) == set(KINDS), soak["faults"]
    assert all(fault["struck"] for fault in soak["faults"])
    assert {finding["name"] for finding in soak["findings"]} >= {"no_duplicates", "none_missing", "values_recompute"}
    assert all(finding["holds"] for finding in soak["findings"])
    counts = soak["counts"]
    assert counts["transactions_aborted"], "a worker failed in the middle of a transaction"
    assert counts["operations_unknown"], "a run was killed"
    assert counts["outputs_committed"] == counts["records_loaded"] > 10_000
    assert counts["records_read"] == 3 * counts["records_loaded"], "the source, and the sink by two readers"
    assert {silence["command"] for silence in soak["silences"]} == {"run", "fill", "verify"}
    assert "<svg" in page.read_text()
    assert f"Seed {SEED}" in run.stderr
    assert "last fault" in run.stderr, "progress is printed, also without a terminal"
    assert servers_of(home) == []


def servers_of(home: Path) -> list[int]:
    """The processes that still use this folder."""
    return [process.pid for process in psutil.process_iter() if str(home) in " ".join(command_line(process))]


def command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
