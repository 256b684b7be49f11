"""A transform may return rows in another order or another partitioning: they are sorted, and none is lost."""

from collections.abc import Iterable, Iterator

import pandas as pd
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.declare.options import Batching
from eos_assets_tests.plugin import MakeTopic
from eos_assets_tests.run.lab import MakeLab

SCHEMA = "key binary, value binary, origin struct<partition:int,offset:bigint,ordinal:bigint>"


def backwards(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Reverse the rows of each batch."""
    for frame in frames:
        yield frame[["key", "value", "origin"]].iloc[::-1]


def later(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Return the first batch after all others."""
    first, *rest = list(frames)
    yield from (frame[["key", "value", "origin"]] for frame in (*rest, first))


@pytest.mark.parametrize("drops", [False, True], ids=["total", "drops"])
@pytest.mark.parametrize("function", [backwards, later])
def test_a_function_over_batches_may_change_the_order(make_lab: MakeLab, function, drops: bool) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(
        lambda records: records.mapInPandas(function, SCHEMA),
        partitions=1,
        drops=drops,
        batching=Batching(records=4_000),
    )
    values = [b"%d" % number for number in range(25_000)]
    lab.produce(values)
    report = lab.run()
    assert report.complete, report.summary()
    for partition in range(3):
        numbers = [int(m.value() or 0) for m in lab.read() if m.partition() == partition]
        assert numbers == sorted(numbers)
    assert sorted(v or b"" for v in lab.values()) == sorted(values)
    assert lab.broken() == set()


def first_and_second(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Two outputs of each record: for a whole batch first all first ones, then all second ones."""
    for frame in frames:
        rows = frame[["key", "value", "origin"]]
        yield pd.concat([rows.assign(value=b"9"), rows.assign(value=b"10")])


@pytest.mark.parametrize("drops", [False, True], ids=["total", "drops"])
def test_the_outputs_of_one_record_need_not_be_adjacent(make_lab: MakeLab, drops: bool) -> None:
    """A transaction batch that ended between them would be committed without the second one."""
    lab = make_lab(
        lambda records: records.mapInPandas(first_and_second, SCHEMA),
        partitions=1,
        drops=drops,
        batching=Batching(records=1_000),
    )
    lab.produce(b"%d" % number for number in range(3_000))
    assert lab.run().complete
    outputs: dict[bytes | None, list[bytes | None]] = {}
    for message in lab.read():
        outputs.setdefault(message.key(), []).append(message.value())
    assert len(outputs) == 3_000
    assert all(values == [b"9", b"10"] for values in outputs.values()), "in the order in which they were returned"
    assert lab.broken() == set()


@pytest.mark.parametrize("function", [backwards, first_and_second])
def test_a_declared_order_that_is_not_kept_stops_the_run(make_lab: MakeLab, function) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(lambda records: records.mapInPandas(function, SCHEMA), partitions=1, ordered=True)
    lab.produce(b"%d" % number for number in range(100))
    report = lab.run()
    assert not report.complete
    assert ["is not `ordered`" in outcome.reason for outcome in report.outcomes] == [True]
    assert lab.read() == []


@pytest.mark.connect
def test_a_scan_of_another_topic_is_not_taken_for_the_source(make_lab: MakeLab, make_topic: MakeTopic) -> None:
    """The records are the small side of a join, so each of its tasks has only some records of a source partition."""
    table = make_topic(partitions=3).name

    def joined(records: DataFrame) -> DataFrame:
        servers = lab.connection.bootstrap_servers
        other = records.sparkSession.read.format("kafka").option("kafka.bootstrap.servers", servers)
        named = other.option("subscribe", table).load().select(f.col("key").alias("k"), f.col("value").alias("name"))
        few = f.broadcast(records)
        return named.join(few, f.col("k") == f.col("key")).select("key", f.col("name").alias("value"), "origin")

    lab = make_lab(joined, partitions=1, drops=True)
    producer = Producer(lab.connection.config())
    for number in range(30):
        producer.produce(table, b"name of %d" % number, b"%d" % number, number % 3)
    producer.flush()
    lab.produce(b"%d" % number for number in range(30))
    assert lab.run().complete
    assert sorted(v or b"" for v in lab.values()) == sorted(b"name of %d" % number for number in range(30))
