"""An order is obeyed once, by the first worker at its step, and the trace survives the worker."""

import multiprocessing
import signal
from pathlib import Path

import psutil
import pytest

from eos_assets.chaos.evidence import transaction_operations
from eos_assets.chaos.history import Completion, TransactionId, TransactionOperation
from eos_assets.chaos.orders import KILL, RAISE, STOP, ObedientFaults, Orders, Strike
from eos_assets.chaos.trace import read_events
from eos_assets.experiment.faults import InjectedFailure
from eos_assets_tests.waiting import wait_for

SPAWN = multiprocessing.get_context("spawn")
TRANSACTION = TransactionId("run", 1, 0, 2, 40)


def commit(folder: Path) -> None:
    """What a worker passes in a transaction."""
    faults = ObedientFaults(str(folder), "run")
    for step in ("mid_produce", "after_offsets", "before_commit", "after_commit"):
        faults.reach(step, 2, 40, 1, 0)


def learned(folder: Path) -> list[TransactionOperation]:
    return transaction_operations(read_events(folder))


def test_without_an_order_a_worker_writes_down_its_commit(tmp_path: Path) -> None:
    commit(tmp_path)
    assert learned(tmp_path) == [TransactionOperation(TRANSACTION, Completion.OK)]


def test_a_worker_fails_at_the_ordered_step_and_the_next_one_does_not(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.give("after_offsets", RAISE)
    assert orders.struck() is None
    with pytest.raises(InjectedFailure, match="after_offsets in partition 2 at offset 40"):
        commit(tmp_path)
    strike = orders.struck()
    assert strike is not None
    assert (strike.partition, strike.start) == (2, 40)
    assert learned(tmp_path) == [TransactionOperation(TRANSACTION, Completion.FAILED)]
    commit(tmp_path)


def test_a_withdrawn_order_strikes_nobody(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.give("mid_produce", RAISE)
    assert orders.withdraw()
    commit(tmp_path)
    assert orders.struck() is None
    assert not orders.withdraw(), "nothing is left to withdraw"


@pytest.mark.parametrize(("step", "known"), [("before_commit", Completion.FAILED), ("after_commit", Completion.OK)])
def test_a_worker_is_killed_and_what_it_knew_remains(step: str, known: Completion, tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.give(step, KILL)
    worker = SPAWN.Process(target=commit, args=(tmp_path,))
    worker.start()
    worker.join(60)
    assert worker.exitcode == -signal.SIGKILL
    assert orders.struck() == Strike(worker.pid or 0, 2, 40)
    assert learned(tmp_path) == [TransactionOperation(TRANSACTION, known)]


def test_a_worker_that_is_stopped_before_its_commit_does_not_know_the_outcome(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.give("before_commit", STOP)
    worker = SPAWN.Process(target=commit, args=(tmp_path,))
    worker.start()
    try:
        stopped = psutil.Process(worker.pid)
        wait_for(lambda: stopped.status() == psutil.STATUS_STOPPED)
        assert orders.struck() == Strike(stopped.pid, 2, 40)
        assert learned(tmp_path) == [TransactionOperation(TRANSACTION, Completion.UNKNOWN)]
        stopped.resume()
        worker.join(60)
        assert worker.exitcode == 0
    finally:
        worker.kill()
    assert learned(tmp_path) == [TransactionOperation(TRANSACTION, Completion.OK)]
