"""The history of real runs: exactly once has no anomaly under a fault that a baseline delivery does not survive."""

from pathlib import Path

import pytest

from eos_assets.chaos.checker import find_anomalies
from eos_assets.chaos.clients import integers, read_topics
from eos_assets.chaos.evidence import committed_transactions, transaction_operations
from eos_assets.chaos.history import Completion, History, LoadOperation, RunOperation
from eos_assets.chaos.orders import RAISE, ObedientFaults, Orders
from eos_assets.chaos.trace import read_events
from eos_assets.declare.modes import Mode
from eos_assets.declare.options import Batching
from eos_assets.kafka.offsets import OffsetRange
from eos_assets_tests.run.lab import Lab, MakeLab

COUNT = 60


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    filled = make_lab(batching=Batching(records=10))
    filled.fill(COUNT)
    return filled


def run_with_an_abort(lab: Lab, mode: Mode, folder: Path) -> History:
    """Run while the worker that first arrives before a commit fails, and read everything."""
    if mode is not Mode.EXACTLY_ONCE:
        lab.create(mode)
    Orders(folder).give("before_commit", RAISE)
    report = lab.run(ObedientFaults(str(folder), "run"), mode=mode, run_id="run")
    assert report.complete
    assert Orders(folder).struck(), "a worker failed"
    names = lab.pipeline.names(mode)
    committed = tuple(OffsetRange(entry.partition, entry.start, entry.next) for entry in report.entries)
    return History(
        names.source,
        loads=[LoadOperation(Completion.OK, integers(0, COUNT))],
        runs=[RunOperation("run", Completion.OK, committed)],
        transactions=transaction_operations(read_events(folder)),
        reads=list(read_topics(lab.connection, [names.source, names.sink(lab.sink), names.dead_letters], "final")),
        committed=committed_transactions(lab.connection, names),
    )


def test_exactly_once_has_no_anomaly(lab: Lab, tmp_path: Path) -> None:
    history = run_with_an_abort(lab, Mode.EXACTLY_ONCE, tmp_path)
    assert find_anomalies(history) == []
    assert [each.completion for each in history.transactions].count(Completion.FAILED) == 1
    assert len(history.committed) >= COUNT // 10
    assert sum(len(read.offsets) for read in history.reads) == 2 * COUNT


def test_at_least_once_has_the_anomalies_of_its_weaker_promise(lab: Lab, tmp_path: Path) -> None:
    kinds = {anomaly.kind for anomaly in find_anomalies(run_with_an_abort(lab, Mode.AT_LEAST_ONCE, tmp_path))}
    assert {"aborted_read", "duplicate"} <= kinds <= {"aborted_read", "duplicate", "nonmonotonic_read"}
