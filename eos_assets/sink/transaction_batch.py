"""The records of one transaction batch, with its provenance maps and its ledger entry."""

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from eos_assets.errors import Code, TaskError
from eos_assets.kafka.headers import Header, UnreadableHeadersError, headers_of
from eos_assets.kafka.producer import Producer, message_array
from eos_assets.log.dead_letter import UNREADABLE_HEADERS, dead_letter_headers
from eos_assets.log.ledger import Genesis, LedgerEntry, WrittenRange
from eos_assets.log.provenance import ROWS as MAP_ROWS
from eos_assets.log.provenance import SKIPPED, ProvenanceMap
from eos_assets.log.reader import CommittedReader
from eos_assets.sink.errors import Fatal
from eos_assets.sink.job import Job
from eos_assets.sink.numbering import Numbering
from eos_assets.sink.record_buffer import RecordBuffer, Target
from eos_assets.sink.router import Integers, Router


class TransactionBatch:
    """What one transaction holds so far.

    A record leaves the memory when it is delivered: of an output only its row of the encoded map stays, of a skip its
    offset.
    """

    def __init__(self, job: Job, partition: int, start: int, producer: Producer) -> None:
        self.job = job
        self.partition = partition
        self.start = start
        self.producer = producer
        self.buffer = RecordBuffer(job, partition, producer)
        self.router = Router(job, partition)
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
        #: The records of the changelogs. No map names them, because they come from the state and not from one record.
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

    def write(self, rows: pa.RecordBatch, reader: CommittedReader) -> None:
        """Produce the outputs and dead letters of these rows in order, and note the skips."""
        offsets = rows["o_offset"].to_numpy()
        sequences = self.numbering.number(rows, offsets)
        if "content_digest" in rows.schema.names and rows["content_digest"].null_count < rows.num_rows:
            self._note_files(rows["content_digest"], offsets)
        outputs = np.ones(len(offsets), bool)
        if "skip" in rows.schema.names:
            skips = pc.fill_null(rows["skip"], False).to_numpy(zero_copy_only=False)
            self.skipped.append(np.unique(offsets[skips]))
            outputs &= ~skips
        if "repeat" in rows.schema.names:
            self.repeats += int(pc.sum(rows["repeat"]).as_py() or 0)
        if "error" in rows.schema.names:
            wrong = rows["error"].is_valid().to_numpy(zero_copy_only=False) & outputs
            self._write_dead_letters(rows.filter(pa.array(wrong)), sequences[wrong], reader)
            outputs &= ~wrong
        if not outputs.all():
            rows, offsets, sequences = rows.filter(pa.array(outputs)), offsets[outputs], sequences[outputs]
        if len(offsets):
            self._write_outputs(rows, offsets, sequences)

    def _note_files(self, digests: pa.StringArray, offsets: Integers) -> None:
        """Keep the content digest of each origin, and refuse a second one that differs."""
        valid = digests.is_valid().to_numpy(zero_copy_only=False)
        for offset, digest in zip(offsets[valid].tolist(), digests.drop_null().to_pylist(), strict=True):
            if self.files.setdefault(str(offset), digest) != digest:
                raise TaskError(
                    Code.INVALID_RESULT,
                    f"the transform returned two digests for source offset {offset} of partition {self.partition}: "
                    "return one for each record",
                )

    def _write_outputs(self, rows: pa.RecordBatch, offsets: Integers, sequences: Integers) -> None:
        digests = rows["digest"].to_numpy().view(np.uint64)
        one_by_one = {"headers", "timestamp"} & set(rows.schema.names)
        messages = message_array(rows["key"], rows["value"])
        for topic, partition, chosen in self.router.route(rows):
            target = self._target(topic, partition)
            target.digest = (target.digest + int(digests[chosen].sum(dtype=np.uint64))) % 2**64
            target.add(offsets[chosen], sequences[chosen])
            if one_by_one:
                self.buffer.produce_rows(target, rows.take(pa.array(chosen)))
            else:
                self.buffer.produce(target, messages[chosen], offsets[chosen])
        self.records_out += len(offsets)
        self._encode_maps(MAP_ROWS)

    def _encode_maps(self, multiple: int) -> None:
        """Encode the map rows of delivered records while more arrive, so that the commit need not wait for it."""
        for place, target in self.targets.items():
            rows = target.take_delivered(self.producer.delivered.get(place, ()), multiple)
            if rows is not None:
                target.maps += ProvenanceMap(
                    self.partition, self.start, target.topic, target.partition, *rows
                ).messages()

    def write_changes(self, rows: pa.RecordBatch) -> None:
        """Produce state changes to their changelogs; a null value removes its key."""
        stores = rows["store"].to_numpy()
        digests = rows["digest"].to_numpy().view(np.uint64)
        messages = message_array(rows["key"], rows["value"])
        for store in np.unique(stores).tolist():
            chosen = np.flatnonzero(stores == store)
            topic = self.job.changelogs[int(store)]
            target = self.changes.setdefault((topic, self.partition), Target(topic, self.partition))
            target.digest = (target.digest + int(digests[chosen].sum(dtype=np.uint64))) % 2**64
            target.count += len(chosen)
            self.buffer.produce(target, messages[chosen], np.full(len(chosen), -1, np.int64))

    def _target(self, topic: str, partition: int) -> Target:
        return self.targets.setdefault((topic, partition), Target(topic, partition))

    def _write_dead_letters(self, rows: pa.RecordBatch, sequences: Integers, reader: CommittedReader) -> None:
        """Produce the original records, read again from the source, with the reason in a header."""
        if not rows.num_rows:
            return
        names, offsets = self.job.names, rows["o_offset"].to_pylist()
        originals = reader.fetch(self.partition, sorted(set(offsets)))
        original = next(originals)
        target = self._target(names.dead_letters, self.partition)
        for offset, reason in zip(offsets, rows["error"].to_pylist(), strict=True):
            if original.offset() != offset:
                original = next(originals)
            added = dead_letter_headers(
                reason, names.pipeline, names.source, self.partition, offset, original.timestamp()[1]
            )
            headers = [*original_headers(original), *added]
            self.buffer.produce_one(target, offset, original.key(), original.value(), headers)
        target.add(np.array(offsets, np.int64), sequences)
        self.dead += len(offsets)

    def complete(self, next_offset: int, task_attempt: int, *, genesis: bool) -> LedgerEntry:
        """Wait until every record has its offset, then produce the provenance maps and the ledger entry.

        They are not delivered yet when this returns; `flush` of the buffer waits for them.
        """
        self.buffer.flush(self.targets)
        self._check_deliveries()
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
            self._produce_metadata(names.ledger, b"genesis", first.to_json())
        for value in self._map_messages():
            self._produce_metadata(names.provenance, b"%d" % self.start, value)
        entry = self._entry(next_offset, task_attempt)
        self._produce_metadata(names.ledger, b"%d" % self.start, self._ledger_value(entry))
        return entry

    def _ledger_value(self, entry: LedgerEntry) -> bytes:
        return entry.to_json()

    def _produce_metadata(self, topic: str, key: bytes, value: bytes) -> None:
        self.buffer.wait_for_room(1, len(key) + len(value))
        self.producer.produce(topic, self.partition, key, value)

    def _check_deliveries(self) -> None:
        for place, target in (*self.targets.items(), *self.changes.items()):
            delivered = sum(map(len, self.producer.delivered[place]))
            if delivered != target.count:
                raise Fatal(
                    f"{target.count} records were produced to {target.topic}/{target.partition}, and {delivered} were "
                    "reported as delivered"
                )

    def _map_messages(self) -> Iterator[bytes]:
        """One map per target, and one for the source records that are skipped."""
        self._encode_maps(1)
        for target in self.targets.values():
            yield from target.maps
        skipped = self._skipped_offsets()
        if len(skipped):
            no_offsets, sequences = np.full(len(skipped), -1, np.int64), np.zeros(len(skipped), np.int64)
            yield from ProvenanceMap(self.partition, self.start, SKIPPED, -1, no_offsets, skipped, sequences).messages()

    def _skipped_offsets(self) -> Integers:
        """Each offset once, although the rows of one record may come in several Arrow batches."""
        return np.unique(np.concatenate(self.skipped)) if self.skipped else np.zeros(0, np.int64)

    def _sink_ranges(self) -> Iterator[WrittenRange]:
        for _, target in sorted(self.targets.items()):
            yield self._written_range(target)

    def _written_range(self, target: Target) -> WrittenRange:
        ranges = self.producer.delivered[target.topic, target.partition]
        first, last = min(r.start for r in ranges), max(r.stop for r in ranges) - 1
        return WrittenRange(target.topic, target.partition, target.count, first, last, target.digest)

    def _state_ranges(self) -> Iterator[WrittenRange]:
        """One for each changelog. If nothing changed, its last offset is that of the loaded state."""
        for topic in self.job.changelogs:
            target = self.changes.get((topic, self.partition))
            if target is None:
                last = self.job.changelog_offsets[self.partition][topic]
                yield WrittenRange(topic, self.partition, 0, -1, last, 0)
            else:
                yield self._written_range(target)

    def _entry(self, next_offset: int, task_attempt: int) -> LedgerEntry:
        return LedgerEntry(
            pipeline=self.job.names.pipeline,
            topic=self.job.names.source,
            partition=self.partition,
            start=self.start,
            next=next_offset,
            records_in=self.records_in,
            records_out=self.records_out,
            skipped=len(self._skipped_offsets()),
            dead=self.dead,
            dropped=self.dropped,
            sinks=tuple(self._sink_ranges()),
            run=self.job.run,
            run_attempt=self.job.run_attempt,
            task_attempt=task_attempt,
            code_version=self.job.code_version,
            began_ms=self.began_ms,
            ended_ms=int(time.time() * 1000),
            mode=str(self.job.names.mode),
            bytes_out=self.bytes_out,
            files=self.files,
            repeats=self.repeats,
            isolated=int(self.job.isolated),
            state=tuple(self._state_ranges()),
        )


def original_headers(original: Message) -> list[Header]:
    """The headers of a record, or one that explains why the client could not decode them."""
    try:
        return headers_of(original)
    except UnreadableHeadersError:
        return [UNREADABLE_HEADERS]
