"""Ranges are read into Arrow exactly as a plain consumer reads them, whatever a partition holds."""

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from eos_assets import deadlines
from eos_assets.errors import EosError
from eos_assets.kafka import message_memory, range_reader
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.headers import headers_of
from eos_assets.kafka.message_memory import Fetched
from eos_assets.kafka.offsets import bounds
from eos_assets.kafka.range_reader import PartitionRange, RangeTruncated, read_batches
from eos_assets.kafka.reader import PartitionUnreadable, read_partition
from eos_assets_tests.kafka.reading import Record, records_of
from eos_assets_tests.plugin import MakeTopic
from eos_assets_tests.waiting import wait_for

CONTENT = st.one_of(st.none(), st.just(b""), st.binary(min_size=1, max_size=40))
HEADERS = st.lists(st.tuples(st.text(max_size=3).filter(lambda name: "\0" not in name), CONTENT), max_size=2)
RECORD = st.tuples(CONTENT, CONTENT, HEADERS)
#: What one producer does: a transaction that ends in one of two ways, or records outside of any.
STEP = st.tuples(st.sampled_from(["committed", "aborted", "plain"]), st.lists(RECORD, max_size=6))
#: Where a range begins and ends, as shares of the partition.
CUT = st.tuples(st.floats(0, 1), st.floats(0, 1))
COLUMNS = ("timestamp", "headers")


def seed(connection: Connection, topic: str, steps: Sequence[tuple[str, Sequence[Any]]]) -> None:
    """Produce records, and the markers of transactions between them."""
    plain = Producer(connection.config())
    transactional = Producer(connection.config(transactional_id=uuid.uuid4().hex))
    transactional.init_transactions(30)
    for kind, records in steps:
        producer = plain if kind == "plain" else transactional
        if kind != "plain":
            transactional.begin_transaction()
        for key, value, headers in records:
            producer.produce(topic, value, key, 0, headers=headers)
        producer.flush(30)
        if kind == "committed":
            transactional.commit_transaction(30)
        elif kind == "aborted":
            transactional.abort_transaction(30)


def read(connection: Connection, topic: str, start: int, end: int, **options: Any) -> list[Record]:
    wanted = PartitionRange(topic, 0, start, end)
    return records_of(read_batches(connection.config(), wanted, COLUMNS, **options))


def oracle(connection: Connection, topic: str, start: int, end: int, isolation: str) -> list[Record]:
    """The same records from a plain consumer."""
    return [
        Record(m.offset(), m.key(), m.value(), m.timestamp()[1], tuple(headers_of(m)))
        for m in read_partition(connection, topic, 0, start, end, isolation)
    ]


@hypothesis_settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=1, max_size=6), cuts=st.lists(CUT, min_size=3, max_size=3))
def test_every_range_is_read_as_a_plain_consumer_reads_it(
    connection: Connection, make_topics: "Iterator[str]", steps: list[Any], cuts: list[tuple[float, float]]
) -> None:
    topic = next(make_topics)
    seed(connection, topic, steps)
    wait_for(lambda: bounds(connection, topic)[0].stable == bounds(connection, topic)[0].high)
    end = bounds(connection, topic)[0].stable
    for cut in cuts:
        low, high = sorted(round(end * share) for share in cut)
        for isolation in ("read_committed", "read_uncommitted"):
            expected = oracle(connection, topic, low, high, isolation)
            assert read(connection, topic, low, high, isolation=isolation) == expected
            assert read(connection, topic, low, high, isolation=isolation, rows=2, size=30) == expected


@pytest.fixture
def make_topics(make_topic: MakeTopic) -> Iterator[str]:
    return (make_topic(partitions=1).name for _ in iter(int, 1))


def test_the_python_client_returns_the_same(
    connection: Connection, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(partitions=1).name
    records = [(None, b"a", []), (b"k", None, [("h", b"1"), ("h", None)]), (b"", b"", [("é", b"")])]
    seed(connection, topic, [("plain", records), ("aborted", records), ("committed", records)])
    by_memory = read(connection, topic, 0, 10)
    message_memory.layout_is_known.cache_clear()
    monkeypatch.setattr(message_memory, "KNOWN_MAJOR_VERSION", 99)
    with caplog.at_level("WARNING"):
        assert read(connection, topic, 0, 10) == by_memory
    message_memory.layout_is_known.cache_clear()
    assert "messages of an unknown layout. Records are read with the Python client" in caplog.text
    assert [record.offset for record in by_memory] == [0, 1, 2, 7, 8, 9]


def test_a_wrong_layout_is_noticed_before_an_address_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert message_memory.layout_is_as_declared()
    followed: list[object] = []
    monkeypatch.setattr(message_memory, "copy_bytes", lambda *arrays: followed.append(arrays))
    for one, other in (("payload", "len"), ("key", "key_len"), ("offset", "partition"), ("err", "offset")):
        words = {**message_memory.WORDS, one: message_memory.WORDS[other], other: message_memory.WORDS[one]}
        monkeypatch.setattr(message_memory, "WORDS", words)
        assert not message_memory.layout_is_as_declared()
        monkeypatch.undo()
        monkeypatch.setattr(message_memory, "copy_bytes", lambda *arrays: followed.append(arrays))
    assert not followed


@pytest.mark.parametrize("address", [0, 8, 4097, (1 << 47) + 8, (1 << 64) - 8])
def test_an_address_that_cannot_be_one_is_refused(address: int) -> None:
    with pytest.raises(KafkaException, match="an address that is not valid"):
        message_memory.read_fields(np.array([address], np.uint64))


def test_large_records_come_in_batches_of_limited_size(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1, max_message_bytes=4 << 20).name
    producer = Producer(connection.config(message_max_bytes=4 << 20))
    values = [bytes([number]) * (1 << 20) for number in range(30)] + [b"x" * (3 << 20)]
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(30)
    batches = list(read_batches(connection.config(), PartitionRange(topic, 0, 0, len(values)), size=2 << 20))
    assert [value for batch in batches for value in batch["value"].to_pylist()] == values
    assert all(batch.num_rows == 1 or batch.nbytes <= 2 << 20 for batch in batches)
    assert len(batches) > 10


def test_an_empty_range_is_read_without_a_client(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "open_partition", None)
    assert [*read_batches(connection.config(), PartitionRange("no such topic", 0, 5, 5))] == []


def test_a_range_that_was_deleted_is_refused(connection: Connection, make_topic: MakeTopic) -> None:
    from confluent_kafka import TopicPartition

    topic = make_topic(partitions=1).name
    seed(connection, topic, [("plain", [(b"k", b"v", [])] * 10)])
    for future in connection.admin.delete_records([TopicPartition(topic, 0, 4)]).values():
        future.result()
    assert [record.offset for record in read(connection, topic, 4, 10)] == [4, 5, 6, 7, 8, 9]
    with pytest.raises(RangeTruncated, match=f"Offset 2 of {topic}/0 was deleted before it was read"):
        read(connection, topic, 2, 10)


def test_a_missing_partition_is_an_error_at_the_deadline(
    connection: Connection, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers may not know a new one yet."""
    monkeypatch.setattr(range_reader, "TIMEOUT_SECONDS", 0.5)
    topic = make_topic(partitions=1).name
    with pytest.raises(PartitionUnreadable, match=f"{topic}/5 could not be read to offset 1"):
        [*read_batches(connection.config(), PartitionRange(topic, 5, 0, 1))]


class Scripted:
    """A consumer whose fetches are given."""

    def __init__(self, *fetches: Fetched) -> None:
        self.fetches = list(fetches)

    def fetch(self, rows: int, seconds: float) -> Fetched:
        return self.fetches.pop(0) if self.fetches else fetched()

    def close(self) -> None: ...


def fetched(*offsets: int, errors: Sequence[tuple[KafkaError, int]] = ()) -> Fetched:
    values = pa.array([b"v"] * len(offsets), pa.binary())
    return Fetched(np.array(offsets, np.int64), values, values, errors=errors)


def offsets_read(*fetches: Fetched, end: int) -> list[int]:
    wanted = PartitionRange("topic", 0, 0, end)
    batches = range_reader.fetch_range(Scripted(*fetches), wanted, 10, 1000)
    return [int(offset) for batch in batches for offset in batch.offsets]


def test_errors_between_records_are_read_in_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """This clock advances a second whenever it is read."""
    import itertools
    from types import SimpleNamespace

    lost, end = KafkaError(KafkaError._TRANSPORT), KafkaError(KafkaError._PARTITION_EOF)
    monkeypatch.setattr(deadlines, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    both = fetched(0, 1, errors=[(lost, -1001)])
    assert offsets_read(both, fetched(), fetched(2, errors=[(end, 5)]), end=5) == [0, 1, 2]
    assert offsets_read(fetched(0, 1, 7), end=5) == [0, 1], "the range ends before the next record"
    with pytest.raises(PartitionUnreadable, match="could not be read to offset 5: nothing arrived from offset 2 on"):
        offsets_read(both, end=5)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        offsets_read(fetched(0, errors=[(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), 1)]), end=5)
    for repeated in (fetched(1, 1), fetched(2, 1)):
        with pytest.raises(EosError, match="returned offset 1 of topic/0 again or out of order"):
            offsets_read(fetched(0), repeated, end=5)
    with pytest.raises(EosError, match="returned offset 0"):
        offsets_read(fetched(0), fetched(0), end=5)


def test_no_damaged_response_of_a_broker_kills_the_process_or_changes_the_content_of_a_record(
    connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1).name
    records = [(b"k%d" % n, b"v" * n, [("h", b"%d" % n)]) for n in range(50)]
    seed(connection, topic, [("plain", records), ("aborted", records), ("committed", records)])
    end = bounds(connection, topic)[0].stable
    command = [sys.executable, "-m", "eos_assets_tests.kafka.hostile_reads"]
    run = subprocess.run(
        [*command, connection.bootstrap_servers, topic, str(end), "40"], capture_output=True, text=True, timeout=250
    )
    assert run.returncode == 0, (run.returncode, run.stderr[-2000:])
    outcomes = json.loads(run.stdout)
    assert len(outcomes) == 40
    assert outcomes.count("exact"), "some responses were not damaged, or read again"
    assert len(set(outcomes)) > 1, "and some were"


def test_messages_outside_of_the_view_of_the_memory_are_read_by_the_python_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some platforms give a process higher addresses."""
    message_memory.layout_is_known.cache_clear()
    monkeypatch.setattr(message_memory, "LAST_ADDRESS", 1 << 20)
    assert not message_memory.layout_is_known()
    message_memory.layout_is_known.cache_clear()
