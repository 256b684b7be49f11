"""Records that no broker accepts, or that the client would change, are errors with a reason and without a retry."""

import time
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from eos_assets.declare.options import Batching
from eos_assets.errors import TaskError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.producer import Producer
from eos_assets.sink.job import Job
from eos_assets.sink.record_buffer import REJECTED, RecordBuffer, Target
from eos_assets_tests.plugin import MakeTopic

JOB = cast(Job, SimpleNamespace(names=SimpleNamespace(source="s"), batching=Batching(timeout_ms=30_000)))
WEEK_MS = 7 * 24 * 3600 * 1000


@pytest.mark.parametrize("transactional", [False, True], ids=["alone", "in a transaction"])
def test_a_timestamp_that_the_broker_rejects_is_an_error(
    connection: Connection, make_topic: MakeTopic, transactional: bool
) -> None:
    topic = make_topic(partitions=1).name
    producer = Producer(connection.config(transactional_id=topic) if transactional else connection.config())
    if transactional:
        producer.init_transactions(30)
        producer.begin_transaction()
    buffer = RecordBuffer(JOB, 0, producer)
    buffer.produce_one(Target(topic, 0), 7, b"k", b"v", [], int(time.time() * 1000) + WEEK_MS)
    with pytest.raises(TaskError, match=r"Invalid timestamp: .*message\.timestamp\.after\.max\.ms"):
        buffer.flush()
    producer.close()


@pytest.mark.parametrize("code", REJECTED)
def test_a_rejected_record_is_reported_also_if_another_partition_of_its_transaction_fails_first(code: int) -> None:
    """The delivery reports of other partitions only report that their records were discarded."""
    discarded = KafkaError(KafkaError._PURGE_QUEUE)
    broken = SimpleNamespace(
        flush=lambda _: 0,
        failed={("t", 0): discarded},
        fatal_error=lambda: None,
        transaction_error=lambda: KafkaError(code),
    )
    with pytest.raises(TaskError, match="a record was not delivered to t/0"):
        RecordBuffer(JOB, 0, cast(Producer, broken)).flush()


def test_a_batch_that_is_rejected_as_a_whole_is_named_by_its_range() -> None:
    """The records that were discarded with it are not named."""
    refused = SimpleNamespace(
        flush=lambda _: 0,
        failed={("t", 0): KafkaError(KafkaError._PURGE_QUEUE), ("t", 1): KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)},
        failed_rows={("t", 0): range(4), ("t", 1): range(2, 5)},
        fatal_error=lambda: None,
        transaction_error=lambda: None,
    )
    target = Target("t", 1)
    target.add(np.arange(10, 16), np.zeros(6, np.int64))
    message = r"one of 3 records, the output of s/0 offset 12 to 14, was not delivered to t/1: .*raise its max\.message"
    with pytest.raises(TaskError, match=message):
        RecordBuffer(JOB, 0, cast(Producer, refused)).flush({("t", 1): target})


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"timestamp": 0}, "offset 7: timestamp 1970-01-01T00:00:00.000 cannot be written"),
        ({"headers": [{"key": None, "value": b"x"}]}, "offset 7 has a header without a key"),
        ({"headers": [None]}, "offset 7 has a header without a key"),
        ({"headers": [{"key": "a\0b", "value": b"x"}]}, "offset 7 has a header with a NUL in its key"),
    ],
    ids=["timestamp 0", "no key", "no header", "NUL"],
)
def test_a_record_that_the_client_would_change_is_an_error(
    connection: Connection, make_topic: MakeTopic, changed: dict[str, Any], problem: str
) -> None:
    topic = make_topic(partitions=1).name
    row = {"o_offset": 7, "key": b"k", "value": b"v", "headers": [{"key": "", "value": None}], "timestamp": 1}
    schema = pa.schema(
        [
            ("o_offset", pa.int64()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ("timestamp", pa.int64()),
        ]
    )
    buffer = RecordBuffer(JOB, 0, Producer(connection.config()))
    with pytest.raises(TaskError, match=problem):
        buffer.produce_rows(Target(topic, 0), pa.RecordBatch.from_pylist([row, {**row, **changed}], schema))
    buffer.flush()
    buffer.producer.close()
