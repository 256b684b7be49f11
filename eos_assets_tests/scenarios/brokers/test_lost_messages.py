"""Requests and replies between the clients and the broker are lost or delayed, and each record is there once."""

import threading
from dataclasses import replace

import pytest

from eos_assets.declare.options import Batching
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets_tests.kafka.proxy import Api, Fault, Proxy
from eos_assets_tests.run.lab import KINDS, Lab, MakeLab
from eos_assets_tests.waiting import wait_for

#: The requests of the producer of one transaction, in their order.
TRANSACTION = (
    Api.FIND_COORDINATOR,
    Api.INIT_PRODUCER_ID,
    Api.ADD_PARTITIONS_TO_TXN,
    Api.PRODUCE,
    Api.ADD_OFFSETS_TO_TXN,
    Api.TXN_OFFSET_COMMIT,
    Api.END_TXN,
)
#: Those of the readers of the source, of the ledger and of the group offset.
READS = (Api.FETCH, Api.LIST_OFFSETS, Api.OFFSET_FETCH)


def run_through(lab: Lab, *faults: Fault) -> None:
    """Run with all clients behind a proxy, until the run has ended and every fault has struck."""
    with Proxy(lab.connection.bootstrap_servers, list(faults)) as proxy:
        assert replace(lab, connection=Connection(proxy.address)).run().complete
    assert all(fault.struck == fault.times for fault in faults), faults


def assert_exact(lab: Lab, count: int) -> None:
    """Each record is there once, every invariant holds, and no transaction is left open."""
    lab.assert_squares(range(count))
    assert lab.lag() == 0
    assert lab.broken() == set()
    names = lab.pipeline.names()
    for topic in (lab.sink, names.ledger, names.provenance):
        assert all(each.stable == each.high for each in bounds(lab.connection, topic).values())


@pytest.mark.parametrize("what", ["request", "reply"])
@pytest.mark.parametrize("api", TRANSACTION, ids=lambda api: api.name.lower())
def test_a_message_of_a_transaction_that_is_lost_changes_nothing(make_lab: MakeLab, api: Api, what: str) -> None:
    """F9, F10 and the other requests of a transaction: the client repeats them, or the next attempt does."""
    lab = make_lab(kind="batches", partitions=1, batching=Batching(records=300))
    lab.fill(1000)
    run_through(lab, Fault(api, what, times=2))  # type: ignore[arg-type]
    assert_exact(lab, 1000)


@pytest.mark.parametrize("make_lab", list(KINDS), indirect=True)
@pytest.mark.parametrize("api", READS, ids=lambda api: api.name.lower())
def test_an_answer_to_a_reader_that_is_lost_changes_nothing(make_lab: MakeLab, api: Api) -> None:
    lab = make_lab(partitions=1)
    lab.fill(1000)
    run_through(lab, Fault(api, "reply", times=2))
    assert_exact(lab, 1000)


@pytest.mark.parametrize(("make_lab", "what"), [("frames", "request"), ("batches", "reply")], indirect=["make_lab"])
def test_messages_that_are_delayed_change_nothing(make_lab: MakeLab, what: str) -> None:
    """F9, F10: one of each kind, on the way to the broker and back."""
    lab = make_lab(partitions=1)
    lab.fill(1000)
    apis = (*TRANSACTION, *READS)
    run_through(lab, *(Fault(api, what, seconds=0.7) for api in apis))  # type: ignore[arg-type]
    assert_exact(lab, 1000)


@pytest.mark.parametrize("api", [Api.PRODUCE, Api.END_TXN], ids=lambda api: api.name.lower())
def test_a_request_that_arrives_after_its_transaction_was_aborted_changes_nothing(make_lab: MakeLab, api: Api) -> None:
    """F9, F10: it is held until the broker has aborted the transaction after its timeout, and a newer attempt has
    committed the range."""
    lab = make_lab(kind="batches", partitions=1, batching=Batching(timeout_ms=1500))
    lab.fill(1000)
    late = Fault(api, "request", released=threading.Event())
    with Proxy(lab.connection.bootstrap_servers, [late]) as proxy:
        report = replace(lab, connection=Connection(proxy.address)).run()
        assert report.complete
        assert [entry.task_attempt + entry.run_attempt for entry in report.entries] != [1], "the first attempt failed"
        assert late.released
        assert not late.passed
        late.released.set()
        wait_for(lambda: late.passed)
    assert late.struck == 1
    assert_exact(lab, 1000)
