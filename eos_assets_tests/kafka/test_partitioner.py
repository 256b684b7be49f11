"""Keys go where Kafka's Java client would send them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from eos_assets.kafka.connection import Connection
from eos_assets.kafka.partitioner import murmur2, partitions_of
from eos_assets_tests.plugin import MakeTopic

#: From Apache Kafka's own tests of `Utils.murmur2`.
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_murmur2_gives_what_kafka_gives() -> None:
    hashes = murmur2(pa.array(VECTORS, pa.binary()))
    assert hashes.astype("int32").tolist() == list(VECTORS.values())


def murmur2_one_by_one(key: bytes) -> int:
    """Kafka's algorithm, a key at a time."""
    mask, mix = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(key)
    for i in range(0, len(key) // 4 * 4, 4):
        k = int.from_bytes(key[i : i + 4], "little") * mix & mask
        k = (k ^ k >> 24) * mix & mask
        h = h * mix & mask ^ k
    tail = key[len(key) // 4 * 4 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * mix & mask
    h = (h ^ h >> 13) * mix & mask
    return h ^ h >> 15


@given(st.lists(st.binary(max_size=40)), st.integers(0, 3))
def test_a_batch_hashes_like_its_keys_one_by_one(keys: list[bytes], cut: int) -> None:
    array = pa.array([b"x" * cut, *keys], pa.binary())[1:]  # a slice: its buffers do not start at zero
    assert murmur2(array).tolist() == [murmur2_one_by_one(key) for key in keys]


def test_a_null_key_is_refused() -> None:
    with pytest.raises(ValueError, match="null key"):
        partitions_of(pa.array([b"a", None], pa.binary()), 3)


def test_spark_writes_the_same_keys_to_the_same_partitions(
    spark: SparkSession, connection: Connection, make_topic: MakeTopic
) -> None:
    """Spark's own Kafka sink uses the Java client and its default partitioner."""
    topic = make_topic(partitions=7).name
    options = {"kafka.bootstrap.servers": connection.bootstrap_servers}
    keys = spark.range(2000).select(f.concat(f.lit("key ä "), f.col("id")).cast("binary").alias("key"))
    keys.withColumn("value", f.col("key")).write.format("kafka").options(**options, topic=topic).save()
    rows = spark.read.format("kafka").options(**options, subscribe=topic).load().select("key", "partition").collect()
    assert len(rows) == 2000
    ours = partitions_of(pa.array([bytes(row.key) for row in rows], pa.binary()), 7)
    assert ours.tolist() == [row.partition for row in rows]
