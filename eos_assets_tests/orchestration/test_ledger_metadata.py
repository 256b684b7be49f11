"""The metadata of a materialization, from ledger entries alone."""

import dagster as dg
import pytest

from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.log.ledger import LedgerEntry, WrittenRange
from eos_assets.orchestration.ledger_metadata import NOTHING_NEW, ledger_metadata, run_metadata
from eos_assets.run.report import RunReport

PIPELINE = Pipeline("p", Topic("source"), (Topic("sink"),), lambda r: r, "1")
SINKS = (WrittenRange("sink", 2, 6, 10, 15, digest=1), WrittenRange("sink-dead-letters", 0, 2, 0, 1, digest=0))


def entry(start: int, end: int, run: str = "run") -> LedgerEntry:
    return LedgerEntry("p", "source", 0, start, end, 8, 6, 0, 2, 0, SINKS, run, 1, 0, "1", 0, 5000, bytes_out=60)


def test_a_run_describes_its_transactions_and_the_position_that_it_reached() -> None:
    report = RunReport("run", "p", Mode.EXACTLY_ONCE, entries=[entry(0, 8), entry(8, 16)], attempts=1, seconds=2.0)
    report.planned, report.ledger_offsets = {0: OffsetRange(0, 0, 16)}, {0: 41}
    metadata = run_metadata(PIPELINE, report, 0, "sink")
    assert (metadata["range"], metadata["transactions"], metadata["attempts"]) == ("[0, 16)", 2, 1)
    assert (metadata["records_in"], metadata["records_out"], metadata["dead"], metadata["bytes"]) == (16, 12, 4, 120)
    assert metadata["records_per_second"] == 8.0
    assert metadata["run"] == dg.MetadataValue.dagster_run("run")
    assert metadata["ledger"] == "eos.p.ledger/0, offset 41"
    assert (metadata["position"], metadata["committed_by"]) == (16, "run")
    assert metadata["committed_at"] == dg.MetadataValue.timestamp(5.0)


@pytest.mark.parametrize("topic", ["sink", "eos.p.ledger"])
def test_a_run_without_new_records_names_the_run_that_committed_the_last_ones(topic: str) -> None:
    report = RunReport("run", "p", Mode.EXACTLY_ONCE, previous={0: entry(0, 8, run="earlier")}, complete=True)
    metadata = run_metadata(PIPELINE, report, 0, topic)
    assert (metadata["range"], metadata["transactions"], metadata.get("records_in", 0)) == (NOTHING_NEW, 0, 0)
    assert (metadata["position"], metadata["committed_by"]) == (8, "earlier")
    assert metadata["run"] == dg.MetadataValue.dagster_run("run")
    assert "held_back" not in metadata
    report.held_back = {0: "source/0 is held back"}
    assert run_metadata(PIPELINE, report, 0, topic)["held_back"] == "source/0 is held back"
    never = run_metadata(PIPELINE, RunReport("run", "p", Mode.EXACTLY_ONCE), 0, topic)
    assert "committed_by" not in never


def test_transactions_of_another_run_are_described_without_a_report() -> None:
    metadata = ledger_metadata(PIPELINE, "sink-dead-letters", 0, [entry(0, 8, run="cli")])
    assert (metadata["range"], metadata["records_out"], metadata["committed_by"]) == ("[0, 8)", 2, "cli")
    assert "bytes" not in metadata, "those are the bytes of the outputs"
