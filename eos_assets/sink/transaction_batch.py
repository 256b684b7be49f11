"""The records of one transaction, with everything that its ledger entry and its provenance map must hold."""

import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from eos_assets.errors import Code, TaskError
from eos_assets.kafka.headers import UnreadableHeadersError, headers_of
from eos_assets.kafka.producer import Producer, messages_of
from eos_assets.log.dead_letter import REASON_CHARACTERS
from eos_assets.log.ledger import Genesis, LedgerEntry, SinkPart
from eos_assets.log.provenance import ROWS as MAP_ROWS
from eos_assets.log.provenance import SKIPPED, ProvenanceMap
from eos_assets.log.reader import SourceReader
from eos_assets.sink.errors import Fatal
from eos_assets.sink.job import Job
from eos_assets.sink.numbering import Numbering
from eos_assets.sink.record_buffer import Header, RecordBuffer
from eos_assets.sink.router import Integers, Routes
from eos_assets.sink.target import Target


class TransactionBatch:
    """What one transaction holds so far. Memory grows with its records and is freed with it: of a delivered output only
    its part of the encoded map is kept, of a skip its offset."""

    def __init__(self, job: Job, partition: int, start: int, producer: Producer) -> None:
        self.job = job
        self.partition = partition
        self.start = start
        self.producer = producer
        self.buffer = RecordBuffer(job, partition, producer)
        self.routes = Routes(job, partition)
        self.began_ms = int(time.time() * 1000)
        self.numbering = Numbering(partition)
        self.records_out = 0
        self.dead = 0
        self.dropped: int | None = 0
        self.targets: dict[tuple[str, int], Target] = {}
        self.skipped: list[Integers] = []
        #: Source offset → digest of what the transform fetched for that record.
        self.files: dict[str, str] = {}
        self.repeats = 0
        #: What went to the changelogs. No map names it: it comes from the state, not from one record.
        self.changes: dict[tuple[str, int], Target] = {}

    @property
    def records_in(self) -> int:
        return self.numbering.origins

    @property
    def bytes_out(self) -> int:
        return self.buffer.bytes_out

    @property
    def next(self) -> int:
        """The first source offset after what was written so far."""
        return self.numbering.last_origin + 1 if self.records_in else self.start

    def write(self, rows: pa.RecordBatch, reader: SourceReader) -> None:
        """Produces the outputs and dead letters of these rows, in their order, and notes the skips."""
        offsets = rows["o_offset"].to_numpy()
        sequences = self.numbering.number(rows, offsets)
        if "content_digest" in rows.schema.names and rows["content_digest"].null_count < rows.num_rows:
            self.note_files(rows["content_digest"], offsets)
        outputs = np.ones(len(offsets), bool)
        if "skip" in rows.schema.names:
            skips = pc.fill_null(rows["skip"], False).to_numpy(zero_copy_only=False)
            self.skipped.append(np.unique(offsets[skips]))
            outputs &= ~skips
        if "repeat" in rows.schema.names:
            self.repeats += int(pc.sum(rows["repeat"]).as_py() or 0)
        if "error" in rows.schema.names:
            wrong = rows["error"].is_valid().to_numpy(zero_copy_only=False) & outputs
            self.write_dead_letters(rows.filter(pa.array(wrong)), sequences[wrong], reader)
            outputs &= ~wrong
        if not outputs.all():
            rows, offsets, sequences = rows.filter(pa.array(outputs)), offsets[outputs], sequences[outputs]
        if len(offsets):
            self.write_outputs(rows, offsets, sequences)

    def note_files(self, digests: pa.StringArray, offsets: Integers) -> None:
        """Keep at most one digest for each origin: with two, the transform does not know what it fetched."""
        given = digests.is_valid().to_numpy(zero_copy_only=False)
        for offset, digest in zip(offsets[given].tolist(), digests.drop_null().to_pylist(), strict=True):
            if self.files.setdefault(str(offset), digest) != digest:
                raise TaskError(
                    Code.INVALID_RESULT,
                    f"the transform returned two digests for source offset {offset} of partition {self.partition}",
                )

    def write_outputs(self, rows: pa.RecordBatch, offsets: Integers, sequences: Integers) -> None:
        digests = rows["digest"].to_numpy().view(np.uint64)
        slow = {"headers", "timestamp"} & set(rows.schema.names)
        messages = messages_of(rows["key"], rows["value"])
        for topic, partition, chosen in self.routes.route(rows):
            target = self.target(topic, partition)
            target.digest = (target.digest + int(digests[chosen].sum(dtype=np.uint64))) % 2**64
            target.note(offsets[chosen], sequences[chosen])
            if slow:
                self.buffer.produce_one_by_one(target, rows.take(pa.array(chosen)))
            else:
                self.buffer.produce(target, messages[chosen], offsets[chosen])
        self.records_out += len(offsets)
        self.map_delivered(MAP_ROWS)

    def map_delivered(self, multiple: int) -> None:
        """Encode the maps of what has its offsets while more records arrive: later, the commit would wait for it."""
        for place, target in self.targets.items():
            rows = target.take_delivered(self.producer.delivered.get(place, ()), multiple)
            if rows is not None:
                made = ProvenanceMap(self.partition, self.start, target.topic, target.partition, *rows)
                target.maps += made.messages()

    def write_changes(self, rows: pa.RecordBatch) -> None:
        """Produces changes of the state to their changelogs; a null value removes its key."""
        stores = rows["store"].to_numpy()
        digests = rows["digest"].to_numpy().view(np.uint64)
        messages = messages_of(rows["key"], rows["value"])
        for store in np.unique(stores).tolist():
            chosen = np.flatnonzero(stores == store)
            topic = self.job.changelogs[int(store)]
            target = self.changes.setdefault((topic, self.partition), Target(topic, self.partition))
            target.digest = (target.digest + int(digests[chosen].sum(dtype=np.uint64))) % 2**64
            target.count += len(chosen)
            self.buffer.produce(target, messages[chosen], np.full(len(chosen), -1, np.int64))

    def target(self, topic: str, partition: int) -> Target:
        return self.targets.setdefault((topic, partition), Target(topic, partition))

    def write_dead_letters(self, rows: pa.RecordBatch, sequences: Integers, reader: SourceReader) -> None:
        """The original records, byte for byte, read again from the source, with the reason in a header."""
        if not rows.num_rows:
            return
        offsets = rows["o_offset"].to_pylist()
        originals = reader.fetch(self.partition, sorted(set(offsets)))
        original = next(originals)
        target = self.target(self.job.names.dead_letters, self.partition)
        for offset, reason in zip(offsets, rows["error"].to_pylist(), strict=True):
            if original.offset() != offset:
                original = next(originals)
            headers = [*original_headers(original), *dead_letter_headers(self.job, self.partition, offset, reason)]
            self.buffer.produce_one(target, offset, original.key(), original.value(), headers)
        target.note(np.array(offsets, np.int64), sequences)
        self.dead += len(offsets)

    def complete(self, next_offset: int, task_attempt: int, *, genesis: bool) -> LedgerEntry:
        """Wait until every record has its offset, then produce the provenance map and the ledger entry. Those are on
        their way when this returns; `flush` of the buffer waits for them."""
        self.buffer.flush(self.targets)
        self.check_deliveries()
        names = self.job.names
        if genesis:
            first = Genesis(
                names.pipeline,
                self.partition,
                self.start,
                self.job.topic_ids,
                names.generation,
                partitions=self.job.source_partitions,
                state=self.job.state_columns,
            )
            self.write_own(names.ledger, b"genesis", first.to_json())
        for value in self.provenance():
            self.write_own(names.provenance, b"%d" % self.start, value)
        entry = self.entry(next_offset, task_attempt)
        self.write_own(names.ledger, b"%d" % self.start, entry.to_json())
        return entry

    def write_own(self, topic: str, key: bytes, value: bytes) -> None:
        self.buffer.make_room(1, len(key) + len(value))
        self.producer.produce(topic, self.partition, key, value)

    def check_deliveries(self) -> None:
        for place, target in (*self.targets.items(), *self.changes.items()):
            came_back = sum(map(len, self.producer.delivered[place]))
            if came_back != target.count:
                raise Fatal(f"{target.count} records went to {target.topic}/{target.partition}, {came_back} came back")

    def provenance(self) -> Iterator[bytes]:
        """One map per target, and one for the source records skipped on purpose; after `check_deliveries`."""
        self.map_delivered(1)
        for target in self.targets.values():
            yield from target.maps
        skipped = self.skipped_offsets()
        if len(skipped):
            none = np.full(len(skipped), -1, np.int64)
            nothing = ProvenanceMap(
                self.partition, self.start, SKIPPED, -1, none, skipped, np.zeros(len(skipped), np.int64)
            )
            yield from nothing.messages()

    def skipped_offsets(self) -> Integers:
        """Each once: the rows of a wide origin come in several batches."""
        return np.unique(np.concatenate(self.skipped)) if self.skipped else np.zeros(0, np.int64)

    def sink_parts(self) -> Iterator[SinkPart]:
        for place, t in sorted(self.targets.items()):
            ranges = self.producer.delivered[place]
            first, last = min(r.start for r in ranges), max(r.stop for r in ranges) - 1
            yield SinkPart(t.topic, t.partition, t.count, first, last, t.digest)

    def state_parts(self) -> Iterator[SinkPart]:
        """One for each changelog, also where nothing changed: then the mark stays where it was."""
        for topic in self.job.changelogs:
            t = self.changes.get((topic, self.partition))
            if t is None:
                yield SinkPart(topic, self.partition, 0, -1, self.job.marks[self.partition][topic], 0)
                continue
            ranges = self.producer.delivered[topic, self.partition]
            first, last = min(r.start for r in ranges), max(r.stop for r in ranges) - 1
            yield SinkPart(topic, self.partition, t.count, first, last, t.digest)

    def entry(self, next_offset: int, task_attempt: int) -> LedgerEntry:
        return LedgerEntry(
            pipeline=self.job.names.pipeline,
            topic=self.job.names.source,
            partition=self.partition,
            start=self.start,
            next=next_offset,
            records_in=self.records_in,
            records_out=self.records_out,
            skipped=len(self.skipped_offsets()),
            dead=self.dead,
            dropped=self.dropped,
            sinks=tuple(self.sink_parts()),
            run=self.job.run,
            run_attempt=self.job.run_attempt,
            task_attempt=task_attempt,
            code_version=self.job.code_version,
            began_ms=self.began_ms,
            ended_ms=int(time.time() * 1000),
            mode=str(self.job.mode),
            bytes_out=self.bytes_out,
            files=self.files,
            repeats=self.repeats,
            isolated=int(self.job.isolated),
            state=tuple(self.state_parts()),
        )


def original_headers(original: Message) -> Sequence[Header]:
    """The headers of a record; where the client cannot give them, one that says so."""
    try:
        return headers_of(original)
    except UnreadableHeadersError:
        return [("eos.headers", b"left out: a name among them is no UTF-8")]


def dead_letter_headers(job: Job, partition: int, offset: int, reason: bytes) -> list[Header]:
    return [
        ("eos.error", reason.decode(errors="replace")[:REASON_CHARACTERS].encode()),
        ("eos.pipeline", job.names.pipeline.encode()),
        ("eos.origin", f"{job.names.source}/{partition}/{offset}".encode()),
    ]
