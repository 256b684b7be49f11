"""The verifier itself (F26): one thing is wrong in the topics, and exactly the right invariants turn red."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from pyspark.sql import functions as f

from eos_assets.exactly_once.ledger import Genesis, LedgerEntry, SinkPart
from eos_assets.exactly_once.provenance import ProvenanceMap
from eos_assets.exactly_once.shape import digest
from eos_assets.kafka.routing import partitions_of
from eos_assets_tests.exactly_once.lab import Lab, MakeLab

NUMBERS = list(range(20))


@dataclass(frozen=True)
class Output:
    """One sink record to be forged."""

    number: int
    partition: int
    visible: bool = True
    named: bool = True


def right() -> list[Output]:
    keys = pa.array([b"%d" % n for n in NUMBERS], pa.binary())
    return [Output(n, int(p)) for n, p in zip(NUMBERS, partitions_of(keys, 3), strict=True)]


def forge(lab: Lab, outputs: list[Output], **entry: object) -> None:
    """Writes sink, provenance, ledger and group offset as a run over NUMBERS would have, from the outputs given."""
    lab.produce([b"%d" % n for n in NUMBERS])
    names = lab.pipeline.names()
    offsets: dict[int, list[tuple[int, int]]] = {}
    for output in outputs:  # one transaction each: what is not to be visible is aborted
        producer = Producer(lab.connection.config(transactional_id=names.group))
        producer.init_transactions(30)
        producer.begin_transaction()
        reported: list[int] = []
        key, value = b"%d" % output.number, b"%d" % output.number**2
        producer.produce(lab.sink, value, key, output.partition, on_delivery=partial(note, reported))
        producer.flush()
        (producer.commit_transaction if output.visible else producer.abort_transaction)(30)
        if output.named:
            offsets.setdefault(output.partition, []).append((reported[0], output.number))
    parts = []
    producer = Producer(lab.connection.config())
    for partition, rows in sorted(offsets.items()):
        sink_offsets, origins = (np.array(column, np.int64) for column in zip(*rows, strict=True))
        none = np.zeros(len(rows), np.int64)
        for value in ProvenanceMap(0, 0, lab.sink, partition, sink_offsets, origins, none).messages():
            producer.produce(names.provenance, value, b"0", 0)
        seen = [n for at, n in rows if any(o.number == n and o.partition == partition and o.visible for o in outputs)]
        low, high = int(sink_offsets.min()), int(sink_offsets.max())
        parts.append(SinkPart(lab.sink, partition, len(rows), low, high, digest_of(lab, seen)))
    ids = lab.connection.topic_ids([lab.source, lab.sink, names.ledger])
    producer.produce(names.ledger, Genesis(names.pipeline, 0, 0, ids).to_json(), b"genesis", 0)
    made = LedgerEntry(
        pipeline=names.pipeline,
        topic=lab.source,
        partition=0,
        start=0,
        next=20,
        records_in=20,
        records_out=len(outputs),
        skipped=0,
        dead=0,
        dropped=0,
        sinks=tuple(parts),
        run="forged",
        run_attempt=1,
        task_attempt=0,
        code_version=lab.pipeline.code_version,
        began_ms=0,
        ended_ms=0,
    )
    producer.produce(names.ledger, replace(made, **entry).to_json(), b"0", 0)  # type: ignore[arg-type]
    producer.flush()
    consumer = Consumer(lab.connection.config(group_id=names.group))
    consumer.commit(offsets=[TopicPartition(lab.source, 0, 20)], asynchronous=False)
    consumer.close()


def note(reported: list[int], error: KafkaError | None, message: Message) -> None:
    assert error is None
    reported.append(message.offset() or 0)


def digest_of(lab: Lab, numbers: list[int]) -> int:
    rows = lab.spark.createDataFrame([(str(n), str(n * n)) for n in numbers], "key string, value string")
    summed = rows.select(f.sum(digest(with_headers=False).cast("decimal(38,0)"))).collect()[0][0]
    return int(summed or 0) % 2**64


@pytest.fixture
def small(make_lab: MakeLab) -> Lab:
    return make_lab(partitions=1)


def test_what_is_right_is_green(small: Lab) -> None:
    forge(small, right())
    assert small.broken() == set()


def test_one_duplicate(small: Lab) -> None:
    outputs = right()
    forge(small, [*outputs, outputs[-1]])
    assert small.broken() == {"no_duplicates", "ordered_within_partition", "values_recompute"}


def test_one_loss(small: Lab) -> None:
    forge(small, [output for output in right() if output.number != 7])
    found = small.verify()
    assert {name for name, finding in found.items() if not finding.holds} == {"none_missing", "values_recompute"}
    assert found["none_missing"].examples == ("source_partition=0, source_offset=7",)


def test_one_swap(small: Lab) -> None:
    outputs = right()
    one = next(o for o in outputs if o.partition == 0)
    other = next(o for o in outputs if o.partition == 0 and o is not one)
    swapped = [other if o is one else one if o is other else o for o in outputs]
    forge(small, swapped)
    assert small.broken() == {"ordered_within_partition"}


def test_one_record_that_nobody_sent(small: Lab) -> None:
    forge(small, [*right(), Output(0, 1, named=False)])
    assert small.broken() >= {"none_invented", "values_recompute"}
    assert small.broken() <= {"none_invented", "values_recompute", "routed_correctly"}
    assert "none_invented" not in small.with_(shared_sink=True).broken()


def test_one_wrong_partition(small: Lab) -> None:
    outputs = right()
    forge(small, [replace(o, partition=(o.partition + 1) % 3) if o.number == 7 else o for o in outputs])
    assert small.broken() == {"routed_correctly"}


def test_one_torn_transaction(small: Lab) -> None:
    """The map and the ledger were committed, one of the outputs was aborted."""
    forge(small, [replace(o, visible=False) if o.number == 7 else o for o in right()])
    assert small.broken() == {"none_missing", "ledger_matches_sink", "values_recompute"}


def test_one_gap_in_the_ledger(small: Lab) -> None:
    forge(small, right(), start=3)
    assert "ledger_tiles_source" in small.broken()


def test_an_aborted_read(small: Lab) -> None:
    """A reader that does not ask for committed data sees the aborted record; the verifier can be made to (S5)."""
    forge(small, [*right(), Output(5, 0, visible=False, named=False)])
    assert small.broken() == set()
    seen = {n for n, finding in small.verify(isolation="read_uncommitted").items() if not finding.holds}
    assert {"none_invented", "values_recompute"} <= seen


def test_a_transaction_that_stays_open(make_lab: MakeLab) -> None:
    """Held open for longer than the timeout of the pipeline."""
    lab = make_lab(partitions=1, transaction_timeout_ms=1500)
    forge(lab, right())
    open_one = Producer(lab.connection.config(transactional_id=f"open-{lab.sink}", transaction_timeout_ms=600_000))
    open_one.init_transactions(30)
    open_one.begin_transaction()
    open_one.produce(lab.sink, b"1", b"1", 0)
    open_one.flush()
    found = lab.verify()
    assert {name for name, finding in found.items() if not finding.holds} == {"no_open_transactions"}
    assert found["no_open_transactions"].examples[0].startswith(f"{lab.sink}/0: open at ")
    open_one.abort_transaction(30)
    assert lab.broken() == set()


def test_a_transform_that_is_no_function_of_one_record_turns_red(make_lab: MakeLab) -> None:
    """Its result depends on where the ranges are cut."""

    def numbered(records):  # type: ignore[no-untyped-def]
        return records.select("key", f.monotonically_increasing_id().cast("string").alias("value"), "origin")

    lab = make_lab(numbered, partitions=1)
    lab.fill(100)
    lab.run(max_records=50)
    lab.run()
    assert "values_recompute" in lab.broken()
    assert not lab.with_(deterministic=False).verify()["values_recompute"].evaluated


def test_duplicates_in_the_source_are_a_warning(small: Lab) -> None:
    small.produce([b"1", b"2", b"2", b"3"])
    assert small.run().complete
    found = small.verify()
    assert {name for name, finding in found.items() if not finding.holds} == {"source_is_unique"}
    assert found["source_is_unique"].severity == "warning"
    assert found["source_is_unique"].examples == ("records=2, business_key=2",)
