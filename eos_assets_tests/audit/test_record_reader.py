"""Records that the driver reads itself: their digests are those of Spark, and nothing outside of a range is read."""

import itertools
import uuid

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from eos_assets.audit.record_reader import read_digests
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.log.digest import digest_expression
from eos_assets.transform.source import read_ranges
from eos_assets_tests.plugin import MakeTopic

CONTENTS = [None, b"", b"1", b"\xff\x00", b"x" * 31, b"y" * 32, b"z" * 100]
HEADERS = [None, [("a", b"1")], [("a", None), ("", b""), ("ä", b"\xff" * 40)]]


def test_digests_are_those_of_spark(spark: SparkSession, connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1)
    producer = Producer(connection.config())
    cases = list(itertools.product(CONTENTS, CONTENTS, HEADERS))
    for key, value, headers in cases:
        producer.produce(topic.name, value, key, 0, headers=headers)  # type: ignore[arg-type]
    producer.flush()
    ranges = [OffsetRange(0, 0, len(cases))]
    theirs = read_ranges(spark, connection, topic.name, ranges).selectExpr(
        "offset", f"{digest_expression(with_headers=True)} AS digest"
    )
    (ours,) = read_digests(connection, [topic.name], {0: ranges})
    assert ours["digest"].to_pylist() == [row.digest for row in theirs.orderBy("offset").collect()]
    assert len(set(ours["digest"].to_pylist())) == len(cases), "no two contents have the same digest"


def test_only_committed_records_within_the_ranges_are_read(connection: Connection, make_topic: MakeTopic) -> None:
    first, second = make_topic(partitions=2), make_topic(partitions=1)
    producer = Producer(connection.config(transactional_id=uuid.uuid4().hex))
    producer.init_transactions(30)
    for commit in (True, False, True):  # a marker after each: offsets 0 to 2, 4 to 6, 8 to 10
        producer.begin_transaction()
        for topic, partition in ((first, 0), (first, 1), (second, 0)):
            for value in (b"a", b"b", b"c"):
                producer.produce(topic.name, value, None, partition)
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    ranges = {0: [OffsetRange(0, 1, 9), OffsetRange(1, 4, 8)], 1: [OffsetRange(0, 10, 12)]}
    found = pa.Table.from_batches(read_digests(connection, [first.name, second.name], ranges))
    places = zip(*(found[name].to_pylist() for name in ("topic", "sink_partition", "sink_offset")), strict=True)
    assert list(places) == [(0, 0, 1), (0, 0, 2), (0, 0, 8), (1, 0, 10)]
