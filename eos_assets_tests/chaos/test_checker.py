"""Each kind of anomaly is found and named when one is injected, and a correct history has none."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from eos_assets.chaos import checker
from eos_assets.chaos.checker import FINDERS, find_anomalies
from eos_assets.chaos.history import (
    Completion,
    History,
    LoadOperation,
    ReadOperation,
    RunOperation,
    TransactionId,
    TransactionOperation,
    fingerprint,
    fingerprints,
)
from eos_assets.kafka.offsets import OffsetRange
from eos_assets_tests.chaos.histories import SOURCE, history, read, records, transaction

Mutation = Callable[[History], None]


def last_read(mutated: History, reader: str, topic: str, partition: int) -> int:
    """The index of the last read of this kind."""
    return max(
        index
        for index, each in enumerate(mutated.reads)
        if (each.reader, each.topic, each.partition) == (reader, topic, partition)
    )


def without(each: ReadOperation, *offsets: int) -> ReadOperation:
    kept = ~np.isin(each.offsets, offsets)
    return replace(each, offsets=each.offsets[kept], records=each.records[kept])


def lose_a_loaded_record(mutated: History) -> None:
    mutated.loads.append(LoadOperation(Completion.OK, fingerprints([(b"lost", b"lost")])))


def lose_a_range(mutated: History) -> None:
    """The ledger skips a transaction, of which nothing is visible and nothing was acknowledged."""
    lost = mutated.committed.pop(1)
    mutated.transactions = [each for each in mutated.transactions if each.id != lost.id]
    mutated.runs = [each for each in mutated.runs if each.run != lost.id.run]
    for output in lost.outputs:
        for index, each in enumerate(mutated.reads):
            if (each.topic, each.partition) == (output.topic, output.partition):
                mutated.reads[index] = without(each, *output.offsets)


def never_commit_the_last_record(mutated: History) -> None:
    mutated.reads.append(read("final", SOURCE, 1, 12, 13, 12))


def lose_an_acknowledged_range(mutated: History) -> None:
    mutated.runs.append(RunOperation("late", Completion.OK, (OffsetRange(1, 10, 13),)))


def lose_an_acknowledged_commit(mutated: History) -> None:
    mutated.transactions.append(TransactionOperation(TransactionId("late", 1, 0, 1, 12), Completion.OK))


def lose_all_outputs_of_a_transaction(mutated: History) -> None:
    for output in mutated.committed[1].outputs:
        index = last_read(mutated, "final", output.topic, output.partition)
        mutated.reads[index] = without(mutated.reads[index], *output.offsets)


def read_an_aborted_record(mutated: History) -> None:
    """The offset of a marker: nothing was committed there."""
    index = last_read(mutated, "follower", "paid", 0)
    each = mutated.reads[index]
    mutated.reads[index : index + 1] = [
        replace(each, end=14),
        read("follower", "paid", 0, 14, 15, 14),
    ]


def commit_an_aborted_transaction(mutated: History) -> None:
    mutated.transactions.append(TransactionOperation(mutated.committed[0].id, Completion.FAILED))


def tear_a_transaction_within_a_partition(mutated: History) -> None:
    index = last_read(mutated, "final", "paid", 1)
    mutated.reads[index] = without(mutated.reads[index], 6)


def tear_a_transaction_across_topics(mutated: History) -> None:
    index = last_read(mutated, "final", "booked", 0)
    mutated.reads[index] = without(mutated.reads[index], *mutated.committed[1].outputs[1].offsets)


def load_a_record_twice(mutated: History) -> None:
    """The last offset holds a record of an earlier one."""
    mutated.loads[0] = replace(mutated.loads[0], records=mutated.loads[0].records[:-1])
    index = last_read(mutated, "final", SOURCE, 0)
    doubled = mutated.reads[index].records.copy()
    doubled[-1] = doubled[3]
    mutated.reads[index] = replace(mutated.reads[index], records=doubled)


def commit_a_range_twice(mutated: History) -> None:
    """By another run, without outputs of its own."""
    again = transaction(0, 1)
    mutated.committed.append(replace(again, id=again.id._replace(run="second"), outputs=()))


def write_an_output_twice(mutated: History) -> None:
    """The last record of a partition once more, in the same transaction."""
    last = mutated.committed[2]
    doubled = replace(
        last.outputs[0],
        offsets=np.append(last.outputs[0].offsets, 14),
        source_offsets=np.append(last.outputs[0].source_offsets, 11),
        sequences=np.append(last.outputs[0].sequences, 0),
    )
    mutated.committed[2] = replace(last, outputs=(doubled, *last.outputs[1:]))
    index = last_read(mutated, "final", "paid", 0)
    whole = mutated.reads[index]
    offsets = np.append(whole.offsets, 14)
    mutated.reads[index] = replace(whole, offsets=offsets, records=records("paid", 0, offsets))


def go_back_in_a_partition(mutated: History) -> None:
    mutated.reads.append(read("follower", "booked", 1, 14, 14, 13))


def write_in_another_order(mutated: History) -> None:
    first = mutated.committed[0]
    swapped = replace(first.outputs[0], source_offsets=first.outputs[0].source_offsets[[0, 2, 1, 3]])
    mutated.committed[0] = replace(first, outputs=(swapped, *first.outputs[1:]))


def read_another_record_at_an_offset(mutated: History) -> None:
    index = last_read(mutated, "final", "paid", 1)
    changed = mutated.reads[index].records.copy()
    changed[0] = fingerprint(b"another", b"record")
    mutated.reads[index] = replace(mutated.reads[index], records=changed)


MUTATIONS: list[tuple[Mutation, str]] = [
    (lose_a_loaded_record, "lost_write"),
    (lose_a_range, "lost_write"),
    (never_commit_the_last_record, "lost_write"),
    (lose_an_acknowledged_range, "lost_write"),
    (lose_an_acknowledged_commit, "lost_write"),
    (lose_all_outputs_of_a_transaction, "lost_write"),
    (read_an_aborted_record, "aborted_read"),
    (commit_an_aborted_transaction, "aborted_read"),
    (tear_a_transaction_within_a_partition, "torn_transaction"),
    (tear_a_transaction_across_topics, "torn_transaction"),
    (load_a_record_twice, "duplicate"),
    (commit_a_range_twice, "duplicate"),
    (write_an_output_twice, "duplicate"),
    (go_back_in_a_partition, "nonmonotonic_read"),
    (write_in_another_order, "nonmonotonic_read"),
    (read_another_record_at_an_offset, "inconsistent_offset"),
]


def test_a_correct_history_has_no_anomaly() -> None:
    assert find_anomalies(history()) == []


@pytest.mark.parametrize(("mutate", "kind"), MUTATIONS, ids=[mutate.__name__ for mutate, _ in MUTATIONS])
def test_an_injected_anomaly_is_found_and_named(mutate: Mutation, kind: str) -> None:
    mutated = history()
    mutate(mutated)
    assert [anomaly.kind for anomaly in find_anomalies(mutated)] == [kind]


def test_every_kind_is_injected_and_specified() -> None:
    assert {kind for _, kind in MUTATIONS} == set(FINDERS)
    assert [line.strip("`") for line in (checker.__doc__ or "").splitlines() if line.startswith("`")] == list(FINDERS)


def test_a_reader_that_has_not_read_on_misses_nothing() -> None:
    """A transaction becomes visible in one partition before the other is read."""
    partial = history()
    del partial.reads[last_read(partial, "follower", "booked", 0)]
    assert find_anomalies(partial) == []


def test_an_unknown_operation_may_have_had_its_effect_or_not() -> None:
    unknown = history()
    unknown.loads[0] = replace(unknown.loads[0], completion=Completion.UNKNOWN)
    unknown.loads.append(LoadOperation(Completion.UNKNOWN, fingerprints([(b"not", b"loaded")])))
    unknown.transactions[0] = replace(unknown.transactions[0], completion=Completion.UNKNOWN)
    assert find_anomalies(unknown) == []


def test_equal_records_have_equal_fingerprints() -> None:
    assert fingerprint(b"1", b"2") == fingerprint(b"1", b"2")
    assert len({fingerprint(*pair) for pair in [(b"1", b"2"), (b"12", b""), (None, b""), (b"", None)]}) == 4
