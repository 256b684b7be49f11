"""What the ledger adds up to, without a broker."""

import pickle
from typing import Any

from eos_assets.log.ledger import Genesis, LedgerEntry, Repair
from eos_assets.metrics.dead_letter_reasons import OTHER, REASONS, DeadLetterReasons
from eos_assets.metrics.first_seen import FirstSeen
from eos_assets.metrics.totals import BUCKET_SECONDS, LedgerTotals


def entry(start: int, end: int, **more: Any) -> LedgerEntry:
    fields = {
        "records_in": end - start,
        "records_out": end - start,
        "skipped": 0,
        "dead": 0,
        "dropped": None,
        "sinks": (),
        "run": "r1",
        "run_attempt": 1,
        "task_attempt": 0,
        "code_version": "1",
        "began_ms": 1000,
        "ended_ms": 1300,
    }
    return LedgerEntry("p", "source", 0, start, end, **{**fields, **more})


def repair_of(partition: int, first: int, last: int) -> Repair:
    """A repair that has read two source records and written five outputs and a dead letter."""
    fields: dict[str, Any] = {
        "records_in": 2,
        "records_out": 5,
        "skipped": 0,
        "dead": 1,
        "bytes_out": 7,
        "sinks": (),
        "lost": (),
        "run": "repairing",
        "run_attempt": 1,
        "task_attempt": 0,
        "code_version": "1",
        "began_ms": 70_000,
        "ended_ms": 71_000,
    }
    return Repair("p", "source", partition, number=1, position=10, first=first, last=last, **fields)


def totals(*entries: Genesis | LedgerEntry | Repair) -> LedgerTotals:
    result = LedgerTotals()
    for one in entries:
        result.add(one)
    return result


def test_the_position_is_that_of_the_last_entry_or_of_the_genesis() -> None:
    genesis = Genesis("p", 0, 7, {})
    assert totals().position is None
    assert totals(genesis).position == 7
    assert totals(genesis, entry(7, 12), entry(12, 20)).position == 20


def test_counts_and_times_are_added() -> None:
    added = totals(entry(0, 10, dead=2, bytes_out=5), entry(10, 30, dead=1, bytes_out=6, ended_ms=9000))
    assert (added.commits, added.records_in, added.dead, added.bytes_out) == (2, 30, 3, 11)
    assert added.seconds == 8.3
    assert {BUCKET_SECONDS[n]: count for n, count in enumerate(added.buckets) if count} == {0.5: 1, 10.0: 1}


def test_a_repair_adds_what_it_wrote_and_moves_no_position() -> None:
    added = totals(entry(0, 10), repair_of(0, 3, 4))
    assert (added.position, added.commits, added.repairs) == (10, 1, 1)
    assert (added.records_in, added.records_out, added.dead, added.bytes_out) == (10, 15, 1, 7)


def test_a_transaction_longer_than_every_bucket_is_counted() -> None:
    assert totals(entry(0, 1, ended_ms=10_000_000)).buckets[-1] == 1


def test_the_transactions_of_one_attempt_are_one_retry() -> None:
    first, second = {"task_attempt": 2}, {"run_attempt": 3}
    attempts = [entry(0, 1), entry(1, 2, **first), entry(2, 3, **first), entry(3, 4, **second), entry(4, 5, **second)]
    added = totals(*attempts, entry(5, 6, run="r2"))
    assert (added.task_retries, added.job_retries) == (2, 2)
    assert totals(entry(0, 1, run_attempt=2, task_attempt=1)).job_retries == 1


def test_the_size_does_not_depend_on_the_number_of_transactions() -> None:
    few, many = (totals(*(entry(n, n + 1) for n in range(1000, 1000 + count))) for count in (300, 3000))
    assert len(pickle.dumps(many)) == len(pickle.dumps(few))


class Record:
    """A dead letter of which only the headers are read."""

    def __init__(self, reason: str, pipeline: bytes = b"p", code: str = "") -> None:
        coded = [("eos.code", code.encode())] if code else []
        self.all = [("eos.error", reason.encode()), *coded, ("eos.pipeline", pipeline)]

    def headers(self) -> list[tuple[str, bytes]]:
        return self.all


def test_letters_are_counted_by_the_code_of_their_reason() -> None:
    reasons = DeadLetterReasons("p")
    for record in (Record("bad value 12"), Record("bad value 7"), Record("any text", code="bad_amount")):
        reasons.add(record)  # type: ignore[arg-type]
    assert reasons.counts == {"bad value …": 2, "bad_amount": 1}


def test_many_reasons_are_a_bounded_number_of_labels() -> None:
    reasons = DeadLetterReasons("p")
    for number in range(100):
        reasons.add(Record(f"unknown {'x' * number}"))  # type: ignore[arg-type]
    reasons.add(Record("of another pipeline with the same sink", b"q"))  # type: ignore[arg-type]
    assert len(reasons.counts) == REASONS + 1
    assert sum(reasons.counts.values()) == 100
    assert reasons.counts[OTHER] > 1


def test_the_time_starts_again_when_the_value_changes() -> None:
    now = 100.0
    seen = FirstSeen(clock=lambda: now)
    assert seen.seconds("lag", 5) == 0
    now = 130.0
    assert seen.seconds("lag", 5) == 30
    assert seen.seconds("lag", 6) == 0
    now = 140.0
    assert seen.seconds("lag", None) == 0
    assert seen.seconds("lag", 6) == 0, "it was forgotten"
