"""Passes records to the producer, and keeps what one transaction has written to each partition of a topic."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from eos_assets.deadlines import Deadline
from eos_assets.errors import Code, TaskError
from eos_assets.kafka.auth_errors import PermissionDenied, denied_resource
from eos_assets.kafka.headers import Header
from eos_assets.kafka.producer import NotQueued, Producer
from eos_assets.sink.errors import FENCED, Fatal, Fenced
from eos_assets.sink.job import Job
from eos_assets.sink.router import Integers

#: Sink offset, source offset and sequence of each record.
MapRows = tuple[Integers, Integers, Integers]


@dataclass
class Target:
    """One partition of one topic, and the records that the transaction batch has produced to it so far, in order."""

    topic: str
    partition: int
    digest: int = 0
    count: int = 0
    #: The encoded messages of its provenance map, and the number of records that they name.
    maps: list[bytes] = field(default_factory=list)
    mapped: int = 0
    #: Of the records that no map message names yet.
    source_offsets: list[Integers] = field(default_factory=list)
    sequences: list[npt.NDArray[np.int32]] = field(default_factory=list)

    def add(self, source_offsets: Integers, sequences: Integers) -> None:
        """Note the origins of records that are produced now."""
        if source_offsets[0] == source_offsets[-1]:  # a single origin, perhaps with many outputs: store it once
            source_offsets = np.broadcast_to(source_offsets[:1].copy(), source_offsets.shape)
        self.source_offsets.append(source_offsets)
        self.sequences.append(sequences.astype(np.int32))
        self.count += len(source_offsets)

    def origins(self, records: range) -> Integers:
        """The source offsets of these records, by their index, without those that a map message names already."""
        unmapped = np.concatenate([np.zeros(0, np.int64), *self.source_offsets])
        return unmapped[max(0, records.start - self.mapped) : max(0, records.stop - self.mapped)]

    def take_delivered(self, delivered: Iterable[range], multiple: int) -> MapRows | None:
        """The map rows of records whose sink offset is known: each record once, in order, and as many as the largest
        multiple. The k-th delivery report belongs to the k-th record."""
        ranges = list(delivered)
        rows = (sum(map(len, ranges)) - self.mapped) // multiple * multiple
        if not rows:
            return None
        sink_offsets = concatenate_slice(ranges, self.mapped, self.mapped + rows)
        source_offsets, sequences = np.concatenate(self.source_offsets), np.concatenate(self.sequences)
        self.source_offsets, self.sequences = [source_offsets[rows:]], [sequences[rows:]]
        self.mapped += rows
        return sink_offsets, source_offsets[:rows], sequences[:rows].astype(np.int64)


def concatenate_slice(ranges: Iterable[range], low: int, high: int) -> Integers:
    """The elements [low, high) of the concatenated ranges."""
    arrays, begin = [np.zeros(0, np.int64)], 0
    for offsets in ranges:
        chosen = offsets[max(0, low - begin) : max(0, high - begin)]
        arrays.append(np.arange(chosen.start, chosen.stop))
        begin += len(offsets)
    return np.concatenate(arrays)


#: The most records and bytes that one call passes to the producer.
PRODUCE_ROWS = 10_000
PRODUCE_BYTES = 4 << 20
#: Delivery reports are polled after this many records that are produced one by one.
POLL_ROWS = 500

#: Records that a broker never accepts, and why. No retry heals these errors.
REJECTED = {
    KafkaError.MSG_SIZE_TOO_LARGE: "it is too large for the topic: raise its max.message.bytes and, if declared, "
    "max_message_bytes (for dead letters that of the source)",
    KafkaError.RECORD_LIST_TOO_LARGE: "its batch is too large for the topic (segment.bytes)",
    KafkaError.INVALID_TIMESTAMP: "the topic does not accept its `timestamp` (message.timestamp.before.max.ms, "
    "message.timestamp.after.max.ms)",
    KafkaError.INVALID_RECORD: "the topic does not accept such a record",
    KafkaError.POLICY_VIOLATION: "a policy of the brokers forbids it",
}
TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
#: A header as a transform returns it. Its key may be null, which Kafka does not accept.
UncheckedHeader = tuple[str | None, bytes | None]
NO_TARGETS: Mapping[tuple[str, int], Target] = {}


class RecordBuffer:
    """Produces the records of one transaction batch."""

    def __init__(self, job: Job, partition: int, producer: Producer) -> None:
        self.job = job
        self.partition = partition
        self.producer = producer
        self.bytes_out = 0

    def produce(self, target: Target, messages: npt.NDArray[np.void], origins: Integers) -> None:
        """Produce an array of records without headers or timestamps."""
        sizes = messages["len"] + messages["key_len"]
        self.bytes_out += int(sizes.sum())
        count = max(1, min(PRODUCE_ROWS, PRODUCE_BYTES // max(1, int(sizes.max()))))
        for low in range(0, len(messages), count):
            batch = messages[low : low + count]
            self.wait_for_room(len(batch), int(sizes[low : low + count].sum()))
            try:
                self.producer.produce_batch(target.topic, target.partition, batch)
            except NotQueued as failure:
                raise self._not_queued(failure.args[0], target, int(origins[low + failure.index])) from failure
        self.producer.poll()

    def produce_rows(self, target: Target, rows: pa.RecordBatch) -> None:
        """Produce records that have headers or timestamps, one by one: the call for an array accepts neither."""
        for number, row in enumerate(rows.to_pylist()):
            headers = [(h["key"], h["value"]) if h else (None, None) for h in row.get("headers") or []]
            self.produce_one(target, row["o_offset"], row["key"], row["value"], headers, row.get("timestamp"))
            if number % POLL_ROWS == 0:
                self.producer.poll()

    def produce_one(
        self,
        target: Target,
        origin: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[UncheckedHeader],
        timestamp: int | None = None,
    ) -> None:
        valid_headers = self._check_headers(headers, origin)
        if timestamp == 0:  # librdkafka replaces it by the current time
            raise TaskError(
                Code.INVALID_RESULT,
                f"{self._output(origin)}: timestamp 1970-01-01T00:00:00.000 cannot be written to Kafka; return null "
                "for the time at which it is produced",
            )
        size = len(key or b"") + len(value or b"")
        self.bytes_out += size
        self.wait_for_room(1, size)
        try:
            self.producer.produce(target.topic, target.partition, key, value, valid_headers, timestamp)
        except KafkaException as failure:
            raise self._not_queued(failure.args[0], target, origin) from failure

    def wait_for_room(self, rows: int, size: int) -> None:
        deadline = Deadline(self.job.batching.timeout_ms / 1000)
        while not self.producer.has_room(rows, size):
            if deadline.passed:
                raise Fatal("the brokers accept no records")
            self.producer.poll(0.01)

    def flush(self, targets: Mapping[tuple[str, int], Target] = NO_TARGETS) -> None:
        """Wait for every delivery report, and raise the first failure.

        A record that a broker never accepts comes first, because the others may only have been discarded with it.
        """
        seconds = self.job.batching.timeout_ms / 1000
        if missing := self.producer.flush(seconds):
            raise Fatal(f"{missing} records were not acknowledged within {seconds:.0f} s")
        failures = sorted(self.producer.failed.items(), key=lambda failure: failure[1].code() not in REJECTED)
        for (topic, partition), error in failures:
            record = self._rejected(targets.get((topic, partition))) if error.code() in REJECTED else "a record"
            raise self._explain(error, f"{record} was not delivered to {topic}/{partition}")

    def _check_headers(self, headers: Sequence[UncheckedHeader], origin: int) -> list[Header]:
        """The headers, if librdkafka can write their keys: it would cut one at a NUL."""
        valid = []
        for key, content in headers:
            if key is None:
                raise TaskError(
                    Code.INVALID_RESULT,
                    f"{self._output(origin)} has a header without a key: return one for each header",
                )
            if "\0" in key:
                raise TaskError(
                    Code.INVALID_RESULT,
                    f"{self._output(origin)} has a header with a NUL in its key {key!r}: return another key",
                )
            valid.append((key, content))
        return valid

    def _not_queued(self, error: KafkaError, target: Target, origin: int) -> Exception:
        record = self._output(origin) if origin >= 0 else "a state"
        if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._BAD_MSG):
            return TaskError(Code.RECORD_TOO_LARGE, f"{record} is too large for {target.topic}: {error.str()}")
        return self._explain(error, f"{record} was not accepted by {target.topic}/{target.partition}")

    def _explain(self, error: KafkaError, message: str) -> Exception:
        """The error that broke the transaction. A record may only report that it was discarded with the transaction."""
        cause = self.producer.fatal_error() or self.producer.transaction_error() or error
        if cause.code() in FENCED:
            return Fenced(f"{message}: {cause.str()}")
        if kind := denied_resource(cause):
            return PermissionDenied(f"{message}: {cause.name()}: {cause.str()}", kind)
        for candidate in (error, cause):
            if candidate.code() in REJECTED:
                code = Code.RECORD_TOO_LARGE if candidate.code() in TOO_LARGE else Code.RECORD_REJECTED
                return TaskError(code, f"{message}: {candidate.str()}: {REJECTED[candidate.code()]}")
        return Fatal(f"{message}: {error.str()}")

    def _rejected(self, target: Target | None) -> str:
        """The record that was rejected, or the range it is in: a broker rejects a batch as a whole."""
        origins: list[int] = []
        if target:
            origins = target.origins(self.producer.failed_rows[target.topic, target.partition]).tolist()
        if not origins:
            return "a record"
        if origins[0] == origins[-1]:
            return self._output(origins[0])
        return f"one of {len(origins)} records, {self._output(origins[0])} to {origins[-1]},"

    def _output(self, origin: int) -> str:
        return f"the output of {self.job.names.source}/{self.partition} offset {origin}"
