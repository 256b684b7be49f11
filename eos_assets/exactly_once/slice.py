"""The records of one transaction: Arrow rows in, produced records out, with all that ledger and provenance must say."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from eos_assets.exactly_once.job import Job
from eos_assets.exactly_once.ledger import LedgerEntry, SinkPart
from eos_assets.exactly_once.provenance import SKIPPED, ProvenanceMap
from eos_assets.exactly_once.source_reader import SourceReader
from eos_assets.exactly_once.verdicts import Fatal
from eos_assets.kafka.routing import partitions_of

Integers = npt.NDArray[np.int64]

#: Records handed to the producer at a time.
CHUNK_ROWS = 10_000
CHUNK_BYTES = 4 << 20
#: What may wait in the producer's queue; below librdkafka's own limits, so that it never refuses one in between.
QUEUE_ROWS = 100_000
QUEUE_BYTES = 48 << 20


class Hopeless(Exception):
    """What no retry can heal: the transform's result breaks its contract. Nothing of the transaction is visible."""


@dataclass
class Target:
    """One partition of one topic, and what this slice wrote to it, in order."""

    topic: str
    partition: int
    digest: int = 0
    source_offsets: list[Integers] = field(default_factory=list)
    sequences: list[Integers] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)
    error: KafkaError | None = None

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Delivery reports of one partition come in the order of its records: the k-th report is the k-th record's."""
        if error is not None:
            self.error = self.error or error
        else:
            self.delivered.append(message.offset())  # type: ignore[arg-type]


class Slice:
    """What one transaction holds so far. Memory grows with its records, by some 30 bytes each, and ends with it."""

    def __init__(self, job: Job, partition: int, start: int, producer: Producer) -> None:
        self.job = job
        self.partition = partition
        self.start = start
        self.producer = producer
        self.began_ms = int(time.time() * 1000)
        self.next = start
        self.records_in = 0
        self.records_out = 0
        self.bytes_out = 0
        self.dead = 0
        self.dropped: int | None = 0
        self.targets: dict[tuple[str, int], Target] = {}
        self.skipped: list[Integers] = []
        self._last_origin = -1
        self._next_sequence = 0
        self._waiting: deque[tuple[int, int]] = deque()

    def write(self, rows: pa.RecordBatch, reader: SourceReader) -> None:
        """Produces the outputs and dead letters of these rows, in their order, and notes the skips."""
        offsets = rows["o_offset"].to_numpy()
        sequences = self.number(rows, offsets)
        outputs = np.ones(len(offsets), bool)
        if "skip" in rows.schema.names:
            skips = pc.fill_null(rows["skip"], False).to_numpy(zero_copy_only=False)
            self.skipped.append(np.unique(offsets[skips]))
            outputs &= ~skips
        if "error" in rows.schema.names:
            wrong = rows["error"].is_valid().to_numpy(zero_copy_only=False) & outputs
            self.write_dead_letters(rows.filter(pa.array(wrong)), sequences[wrong], reader)
            outputs &= ~wrong
        if not outputs.all():
            rows, offsets, sequences = rows.filter(pa.array(outputs)), offsets[outputs], sequences[outputs]
        if len(offsets):
            self.write_outputs(rows, offsets, sequences)

    def number(self, rows: pa.RecordBatch, offsets: Integers) -> Integers:
        """The sequence of each row among the rows of its origin: given by the transform, else the order of arrival."""
        sequences: Integers
        changes = np.flatnonzero(np.diff(offsets, prepend=self._last_origin))
        self.records_in += len(changes)
        if "sequence" in rows.schema.names:
            sequences = rows["sequence"].to_numpy(zero_copy_only=False).astype(np.int64)
        else:
            index = np.arange(len(offsets))
            begins = np.zeros(len(offsets), np.int64)
            begins[changes] = index[changes]
            begins = np.maximum.accumulate(begins)
            sequences = index - begins
            if not len(changes) or changes[0] > 0:  # the first rows belong to the origin of the last batch
                upto = changes[0] if len(changes) else len(offsets)
                sequences[:upto] += self._next_sequence
        self._last_origin = int(offsets[-1])
        self._next_sequence = int(sequences[-1]) + 1
        self.next = self._last_origin + 1
        return sequences

    def write_outputs(self, rows: pa.RecordBatch, offsets: Integers, sequences: Integers) -> None:
        topics, places = self.route(rows)
        digests = rows["digest"].to_numpy().view(np.uint64)
        order = np.argsort(places, kind="stable")
        ends = np.append(np.flatnonzero(np.diff(places[order])) + 1, len(order))
        begin = 0
        for end in ends:
            chosen = order[begin:end]
            begin = end
            topic, partition = topics[places[chosen[0]] >> 32], int(places[chosen[0]] & 0xFFFFFFFF)
            target = self.target(topic, partition)
            target.digest = (target.digest + int(digests[chosen].sum(dtype=np.uint64))) % 2**64
            target.source_offsets.append(offsets[chosen])
            target.sequences.append(sequences[chosen])
            self.records_out += len(chosen)
            self.produce(target, rows if len(chosen) == rows.num_rows else rows.take(pa.array(chosen)))

    def route(self, rows: pa.RecordBatch) -> tuple[list[str], Integers]:
        """The place of each row: the index of its topic in the upper half, its partition in the lower."""
        if "topic" in rows.schema.names:
            encoded = pc.fill_null(rows["topic"], self.job.default_topic).dictionary_encode()
            names, index = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
        else:
            names, index = [self.job.default_topic], np.zeros(rows.num_rows, np.int64)
        topics = [self.job.names.sink(name) for name in names]
        partitions = np.empty(rows.num_rows, np.int64)
        for number, topic in enumerate(topics):
            if topic not in self.job.sink_partitions:
                declared = ", ".join(self.job.sink_partitions)
                raise Hopeless(
                    f"the transform sent a record to topic {names[number]}, which is not declared ({declared})"
                )
            chosen = np.flatnonzero(index == number)
            subset = rows if len(topics) == 1 else rows.take(pa.array(chosen))
            partitions[chosen] = self.partitions(subset, self.job.sink_partitions[topic], topic)
        return topics, (index << 32) | partitions

    def partitions(self, rows: pa.RecordBatch, count: int, topic: str) -> Integers:
        """By the key, as a Java client would; a row without a key goes by its source partition, so order is kept."""
        routed = np.full(rows.num_rows, self.partition % count, np.int64)
        keys = rows["key"]
        keyed = keys.is_valid().to_numpy(zero_copy_only=False)
        if keyed.all():
            routed[:] = partitions_of(keys, count)
        elif keyed.any():
            routed[keyed] = partitions_of(keys.filter(pa.array(keyed)), count)
        if "partition" in rows.schema.names:
            given = rows["partition"]
            declared = given.is_valid().to_numpy(zero_copy_only=False)
            routed[declared] = given.drop_null().to_numpy()
            if ((routed < 0) | (routed >= count)).any():
                bad = int(routed[(routed < 0) | (routed >= count)][0])
                raise Hopeless(f"the transform sent a record to partition {bad} of {topic}, which has {count}")
        return routed

    def target(self, topic: str, partition: int) -> Target:
        return self.targets.setdefault((topic, partition), Target(topic, partition))

    def produce(self, target: Target, rows: pa.RecordBatch) -> None:
        size = rows["key"].nbytes + rows["value"].nbytes
        self.bytes_out += size
        chunk = max(1, min(CHUNK_ROWS, int(CHUNK_BYTES / max(1, size / rows.num_rows))))
        slow = {"headers", "timestamp"} & set(rows.schema.names)
        for low in range(0, rows.num_rows, chunk):
            part = rows.slice(low, chunk)
            self.make_room(part.num_rows, size * part.num_rows // rows.num_rows)
            (self.produce_one_by_one if slow else self.produce_batch)(target, part)
            self.producer.poll(0)

    def make_room(self, rows: int, size: int) -> None:
        """Waits until the queue has room. If `produce_batch` met a full queue it would refuse some records and take
        later ones: the order would be lost."""
        self._waiting.append((rows, size))
        deadline = time.monotonic() + self.job.transaction_timeout_ms / 1000
        while self.queued_bytes() > QUEUE_BYTES or len(self.producer) + rows > QUEUE_ROWS:
            self.producer.poll(0.01)
            if time.monotonic() > deadline:
                raise Fatal("the brokers take no records")

    def queued_bytes(self) -> int:
        """The bytes of the newest chunks that hold as many records as the queue does."""
        queued = len(self.producer)
        while len(self._waiting) > 1 and sum(rows for rows, _ in self._waiting) - self._waiting[0][0] > queued:
            self._waiting.popleft()
        return sum(size for _, size in self._waiting) if queued else 0

    def produce_batch(self, target: Target, rows: pa.RecordBatch) -> None:
        pairs = zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True)
        records: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in pairs]
        taken = self.producer.produce_batch(target.topic, records, target.partition, on_delivery=target.report)
        if taken != len(records):
            index, error = next((n, record["_error"]) for n, record in enumerate(records) if "_error" in record)
            raise self.refused(error, target, rows["o_offset"][index].as_py())

    def produce_one_by_one(self, target: Target, rows: pa.RecordBatch) -> None:
        """Records with headers or a timestamp of their own: `produce_batch` would drop those."""
        for row in rows.to_pylist():
            headers = [(h["key"], h["value"]) for h in row.get("headers") or []]
            more = {"timestamp": row["timestamp"]} if row.get("timestamp") is not None else {}
            self.produce_one(target, row["o_offset"], row["key"], row["value"], headers, **more)

    def produce_one(
        self, target: Target, origin: int, key: bytes | None, value: bytes | None, headers: list[Any], **more: Any
    ) -> None:
        while True:
            try:
                self.producer.produce(
                    target.topic, value, key, target.partition, on_delivery=target.report, headers=headers, **more
                )
                return
            except BufferError:
                self.producer.poll(0.05)
            except KafkaException as failure:
                raise self.refused(failure.args[0], target, origin) from failure

    def refused(self, error: KafkaError, target: Target, origin: int) -> Exception:
        what = f"the output of {self.job.names.source}/{self.partition} offset {origin}"
        if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._BAD_MSG):
            return Hopeless(f"{what} is too large for {target.topic}: {error.str()}")
        return Fatal(f"{what} was not taken by {target.topic}/{target.partition}: {error.str()}")

    def write_dead_letters(self, rows: pa.RecordBatch, sequences: Integers, reader: SourceReader) -> None:
        """The original records, byte for byte, read again from the source, with the reason in a header."""
        if not rows.num_rows:
            return
        offsets = rows["o_offset"].to_pylist()
        originals = reader.fetch(self.partition, sorted(set(offsets)))
        target = self.target(self.job.names.dead_letters, self.partition)
        for offset, reason in zip(offsets, rows["error"].to_pylist(), strict=True):
            original = originals[offset]
            key, value = original.key(), original.value()
            headers = [*(original.headers() or []), *dead_letter_headers(self.job, self.partition, offset, reason)]
            self.produce_one(target, offset, key, value, headers)
        target.source_offsets.append(np.array(offsets, np.int64))
        target.sequences.append(sequences)
        self.dead += len(offsets)

    def check_deliveries(self) -> None:
        """Every record must have its offset by now."""
        for target in self.targets.values():
            if target.error is not None:
                code = target.error.code()
                text = f"a record was not delivered to {target.topic}/{target.partition}: {target.error.str()}"
                raise Hopeless(text) if code == KafkaError.MSG_SIZE_TOO_LARGE else Fatal(text)
            wanted = sum(map(len, target.source_offsets))
            if len(target.delivered) != wanted or min(target.delivered, default=0) < 0:
                raise Fatal(
                    f"{wanted} records went to {target.topic}/{target.partition}, {len(target.delivered)} came back"
                )

    def provenance(self) -> Iterator[ProvenanceMap]:
        """One map per target, and one for the source records skipped on purpose; after `check_deliveries`."""
        for target in self.targets.values():
            yield ProvenanceMap(
                self.partition,
                self.start,
                target.topic,
                target.partition,
                np.array(target.delivered, np.int64),
                np.concatenate(target.source_offsets),
                np.concatenate(target.sequences),
            )
        skipped = np.unique(np.concatenate(self.skipped)) if self.skipped else np.zeros(0, np.int64)
        if len(skipped):
            none = np.full(len(skipped), -1, np.int64)
            yield ProvenanceMap(
                self.partition, self.start, SKIPPED, -1, none, skipped, np.zeros(len(skipped), np.int64)
            )

    def entry(self, next_offset: int, task_attempt: int) -> LedgerEntry:
        parts = [
            SinkPart(t.topic, t.partition, len(t.delivered), min(t.delivered), max(t.delivered), t.digest)
            for t in self.targets.values()
            if t.delivered
        ]
        return LedgerEntry(
            pipeline=self.job.names.pipeline,
            topic=self.job.names.source,
            partition=self.partition,
            start=self.start,
            next=next_offset,
            records_in=self.records_in,
            records_out=self.records_out,
            skipped=sum(map(len, self.skipped)),
            dead=self.dead,
            dropped=self.dropped,
            sinks=tuple(sorted(parts, key=lambda part: (part.topic, part.partition))),
            run=self.job.run,
            run_attempt=self.job.run_attempt,
            task_attempt=task_attempt,
            code_version=self.job.code_version,
            began_ms=self.began_ms,
            ended_ms=int(time.time() * 1000),
            mode=str(self.job.mode),
            bytes_out=self.bytes_out,
        )


def dead_letter_headers(job: Job, partition: int, offset: int, reason: str) -> list[tuple[str, bytes]]:
    return [
        ("eos.error", reason.encode()),
        ("eos.pipeline", job.names.pipeline.encode()),
        ("eos.origin", f"{job.names.source}/{partition}/{offset}".encode()),
    ]
