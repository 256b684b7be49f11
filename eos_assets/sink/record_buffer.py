"""Records in, handed to the producer as it has room for them; what it does not take gets its meaning."""

import time
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from eos_assets.errors import Code, TaskError
from eos_assets.kafka.auth_errors import Denied, denial
from eos_assets.kafka.producer import NotQueued, Producer
from eos_assets.sink.errors import FENCED, Fatal, Fenced
from eos_assets.sink.job import Job
from eos_assets.sink.router import Integers
from eos_assets.sink.target import Target

#: Records handed to the producer at a time.
CHUNK_ROWS = 10_000
CHUNK_BYTES = 4 << 20
#: Records produced one by one between two looks at the delivery reports.
POLL_ROWS = 500

#: What a broker says of a record that it will never take, and what that means: no retry heals it.
NEVER_TAKEN = {
    KafkaError.MSG_SIZE_TOO_LARGE: "it is too large for the topic: raise its max.message.bytes and, if declared, "
    "max_message_bytes (for dead letters that of the source)",
    KafkaError.RECORD_LIST_TOO_LARGE: "its batch is too large for the topic (segment.bytes)",
    KafkaError.INVALID_TIMESTAMP: "the topic takes no such `timestamp` (message.timestamp.before.max.ms, "
    "message.timestamp.after.max.ms)",
    KafkaError.INVALID_RECORD: "the topic takes no such record",
    KafkaError.POLICY_VIOLATION: "a policy of the brokers forbids it",
}
TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
Header = tuple[str | None, bytes | None]
NO_TARGETS: Mapping[tuple[str, int], Target] = {}


class RecordBuffer:
    """The way of one slice's records to the brokers."""

    def __init__(self, job: Job, partition: int, producer: Producer) -> None:
        self.job = job
        self.partition = partition
        self.producer = producer
        self.bytes_out = 0

    def produce(self, target: Target, messages: npt.NDArray[np.void], origins: Integers) -> None:
        sizes = messages["len"] + messages["key_len"]
        self.bytes_out += int(sizes.sum())
        chunk = max(1, min(CHUNK_ROWS, CHUNK_BYTES // max(1, int(sizes.max()))))
        for low in range(0, len(messages), chunk):
            part = messages[low : low + chunk]
            self.make_room(len(part), int(sizes[low : low + chunk].sum()))
            try:
                self.producer.produce_batch(target.topic, target.partition, part)
            except NotQueued as refused:
                raise self._refusal(refused.args[0], target, int(origins[low + refused.index])) from refused
        self.producer.poll()

    def make_room(self, rows: int, size: int) -> None:
        deadline = time.monotonic() + self.job.batching.timeout_ms / 1000
        while not self.producer.has_room(rows, size):
            if time.monotonic() > deadline:
                raise Fatal("the brokers take no records")
            self.producer.poll(0.01)

    def produce_one_by_one(self, target: Target, rows: pa.RecordBatch) -> None:
        """Records with headers or a timestamp of their own: an array of records has no place for those."""
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
        headers: Sequence[Header],
        timestamp: int | None = None,
    ) -> None:
        named = self._named(headers, origin)
        if timestamp == 0:  # the C library takes it for "now"
            raise TaskError(
                Code.INVALID_RESULT,
                f"{self._output(origin)}: timestamp 1970-01-01T00:00:00.000 cannot be written to Kafka",
            )
        size = len(key or b"") + len(value or b"")
        self.bytes_out += size
        self.make_room(1, size)
        try:
            self.producer.produce(target.topic, target.partition, key, value, named, timestamp)
        except KafkaException as failure:
            raise self._refusal(failure.args[0], target, origin) from failure

    def _named(self, headers: Sequence[Header], origin: int) -> list[tuple[str, bytes | None]]:
        """The headers, each with a name that can be written: the C library would cut one at a NUL."""
        named = []
        for name, content in headers:
            if name is None:
                raise TaskError(Code.INVALID_RESULT, f"{self._output(origin)} has a header without a key")
            if "\0" in name:
                raise TaskError(
                    Code.INVALID_RESULT, f"{self._output(origin)} has a header with a NUL in its key: {name!r}"
                )
            named.append((name, content))
        return named

    def _output(self, origin: int) -> str:
        return f"the output of {self.job.names.source}/{self.partition} offset {origin}"

    def _refusal(self, error: KafkaError, target: Target, origin: int) -> Exception:
        what = self._output(origin) if origin >= 0 else "a state"
        if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._BAD_MSG):
            return TaskError(Code.RECORD_TOO_LARGE, f"{what} is too large for {target.topic}: {error.str()}")
        return self._meaning(error, f"{what} was not taken by {target.topic}/{target.partition}")

    def _meaning(self, error: KafkaError, what: str) -> Exception:
        """Records tell first that something broke their transaction; what it was stands behind them."""
        cause = self.producer.fatal_error() or self.producer.transaction_error() or error
        if cause.code() in FENCED:
            return Fenced(f"{what}: {cause.str()}")
        if kind := denial(cause):
            return Denied(f"{what}: {cause.name()}: {cause.str()}", kind)
        for told in (error, cause):
            if told.code() in NEVER_TAKEN:
                code = Code.RECORD_TOO_LARGE if told.code() in TOO_LARGE else Code.RECORD_REJECTED
                return TaskError(code, f"{what}: {told.str()}: {NEVER_TAKEN[told.code()]}")
        return Fatal(f"{what}: {error.str()}")

    def flush(self, targets: Mapping[tuple[str, int], Target] = NO_TARGETS) -> None:
        """Waits for every delivery report; what is not acknowledged in time ends the attempt. Told is the record that
        a broker never takes, if there is one: the others may only have been thrown away with it."""
        patience = self.job.batching.timeout_ms / 1000
        if missing := self.producer.flush(patience):
            raise Fatal(f"{missing} records were not acknowledged within {patience:.0f} s")
        failed = sorted(self.producer.failed.items(), key=lambda one: one[1].code() not in NEVER_TAKEN)
        for (topic, partition), error in failed:
            what = self._refused(targets.get((topic, partition))) if error.code() in NEVER_TAKEN else "a record"
            raise self._meaning(error, f"{what} was not delivered to {topic}/{partition}")

    def _refused(self, target: Target | None) -> str:
        """A broker refuses a batch as a whole, and does not say which of its records it means."""
        origins: list[int] = []
        if target:
            origins = target.origins(self.producer.failed_rows[target.topic, target.partition]).tolist()
        if not origins:
            return "a record"
        if origins[0] == origins[-1]:
            return self._output(origins[0])
        return f"one of {len(origins)} records, {self._output(origins[0])} to {origins[-1]},"
