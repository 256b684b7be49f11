"""Topics forged as a run would have written them, with something wrong: what the proofs must find."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from pyspark.sql import functions as f

from eos_assets.kafka.partitioner import partitions_of
from eos_assets.log.digest import digest_column
from eos_assets.log.ledger import Genesis, LedgerEntry, WrittenRange
from eos_assets.log.provenance import ProvenanceMap
from eos_assets_tests.run.lab import Lab

NUMBERS = list(range(20))


@dataclass(frozen=True)
class Output:
    """One sink record to be forged."""

    number: int
    partition: int
    visible: bool = True
    named: bool = True
    wrong_value: bool = False
    #: The origin in its map row, if it is not its own.
    claims: int | None = None

    @property
    def value(self) -> bytes:
        return b"%d" % (self.number**2 + self.wrong_value)


#: Makes the ledger entry wrong.
Spoil = Callable[[LedgerEntry], LedgerEntry]


def correct_outputs() -> list[Output]:
    keys = pa.array([b"%d" % n for n in NUMBERS], pa.binary())
    return [Output(n, int(p)) for n, p in zip(NUMBERS, partitions_of(keys, 3), strict=True)]


def forge(lab: Lab, outputs: list[Output], spoil: Spoil = lambda entry: entry) -> None:
    """Write sink, provenance, ledger and group offset as a run over NUMBERS would have, with these outputs."""
    lab.produce([b"%d" % n for n in NUMBERS])
    names = lab.pipeline.names()
    offsets: dict[int, list[tuple[int, Output]]] = {}
    for visible, group in groupby(outputs, lambda output: output.visible):  # the invisible ones are aborted
        together = list(group)
        for output, offset in zip(together, write_outputs(lab, together, commit=visible), strict=True):
            if output.named:
                offsets.setdefault(output.partition, []).append((offset, output))
    ranges = []
    producer = Producer(lab.connection.config())
    for partition, rows in sorted(offsets.items()):
        sink_offsets = np.array([offset for offset, _ in rows], np.int64)
        claimed = [output.number if output.claims is None else output.claims for _, output in rows]
        origins = np.array(claimed, np.int64)
        none = np.zeros(len(rows), np.int64)
        for value in ProvenanceMap(0, 0, lab.sink, partition, sink_offsets, origins, none).messages():
            producer.produce(names.provenance, value, b"0", 0)
        low, high = int(sink_offsets.min()), int(sink_offsets.max())
        ranges.append(
            WrittenRange(lab.sink, partition, len(rows), low, high, digest_of(lab, [output for _, output in rows]))
        )
    ids = lab.connection.topic_ids([lab.source, lab.sink, names.ledger])
    producer.produce(names.ledger, Genesis(names.pipeline, 0, 0, ids).to_json(), b"genesis", 0)
    entry = LedgerEntry(
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
        sinks=tuple(ranges),
        run="forged",
        run_attempt=1,
        task_attempt=0,
        code_version=lab.pipeline.code_version,
        began_ms=0,
        ended_ms=0,
    )
    producer.produce(names.ledger, spoil(entry).to_json(), b"0", 0)
    producer.flush()
    commit_group(lab, 20)


def write_outputs(lab: Lab, outputs: list[Output], *, commit: bool) -> list[int]:
    """Write these records in one transaction, and return their offsets."""
    producer = Producer(lab.connection.config(transactional_id=lab.pipeline.names().group))
    producer.init_transactions(30)
    producer.begin_transaction()
    reported: dict[int, int] = {}
    for at, output in enumerate(outputs):
        on_delivery = partial(note, reported, at)
        producer.produce(lab.sink, output.value, b"%d" % output.number, output.partition, on_delivery=on_delivery)
    producer.flush()
    (producer.commit_transaction if commit else producer.abort_transaction)(30)
    return [reported[at] for at in range(len(outputs))]


def open_transaction(lab: Lab) -> Producer:
    """An open transaction of another producer in the sink."""
    producer = Producer(lab.connection.config(transactional_id=f"open-{lab.sink}", transaction_timeout_ms=600_000))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(lab.sink, b"1", b"1", 0)
    producer.flush()
    return producer


def commit_group(lab: Lab, offset: int) -> None:
    """Set the group offset of the pipeline, as an operator could."""
    consumer = Consumer(lab.connection.config(group_id=lab.pipeline.names().group))
    consumer.commit(offsets=[TopicPartition(lab.source, 0, offset)], asynchronous=False)
    consumer.close()


def note(reported: dict[int, int], at: int, error: KafkaError | None, message: Message) -> None:
    assert error is None
    reported[at] = message.offset() or 0


def digest_of(lab: Lab, outputs: list[Output]) -> int:
    contents = [(str(output.number), output.value.decode()) for output in outputs]
    rows = lab.spark.createDataFrame(contents, "key string, value string")
    summed = rows.select(f.sum(digest_column(with_headers=False).cast("decimal(38,0)"))).collect()[0][0]
    return int(summed or 0) % 2**64
