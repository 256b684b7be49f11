"""Outputs to several topics, and to declared partitions."""

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets_tests.run.lab import MakeLab, declare
from eos_assets_tests.waiting import wait_for


@pytest.mark.connect
def test_outputs_go_to_several_topics_in_one_transaction(make_lab: MakeLab) -> None:
    lab = make_lab(sinks=2)
    one, two = (sink.name for sink in lab.pipeline.sinks)

    def split(records: DataFrame) -> DataFrame:
        even = f.col("value").cast("string").cast("long") % 2 == 0
        return records.select("key", "value", f.when(even, one).otherwise(two).alias("topic"), "origin")

    lab = lab.with_(transform=split)
    lab.fill(300)
    assert lab.run().complete
    assert sorted(int(v or 0) for v in lab.values(one)) == list(range(0, 300, 2))
    assert sorted(int(v or 0) for v in lab.values(two)) == list(range(1, 300, 2))
    assert lab.broken() == set()


def test_a_sink_that_is_no_longer_declared_is_still_proven(make_lab: MakeLab) -> None:
    lab = make_lab(sinks=2, partitions=1)
    one, two = lab.pipeline.sinks

    def to_both(records: DataFrame) -> DataFrame:
        topics = f.array(f.lit(one.name), f.lit(two.name))
        return records.select("key", "value", f.explode(topics).alias("topic"), "origin")

    both = lab.with_(transform=to_both)
    both.fill(50)
    both.run()
    alone = lab.with_(sinks=(one,), version="later")
    lab.fill(50)
    alone.run()
    assert alone.broken() == set()
    forger = Producer(lab.connection.config())
    forger.produce(two.name, b"x", b"x", 0)
    forger.flush()
    assert "none_invented" in alone.broken()
    lab.connection.admin.delete_topics([two.name])[two.name].result()
    wait_for(lambda: two.name not in lab.connection.metadata().topics)
    proof = alone.proof(full=True)
    assert proof.holds, [finding for finding in proof.findings if not finding.holds]
    assert proof.figures["no_longer_provable"] == 50


def test_a_topic_or_partition_that_is_not_declared_commits_nothing(make_lab: MakeLab) -> None:
    for column, value, problem in (("topic", "elsewhere", "not declared"), ("partition", 7, "partition 7")):
        lab = make_lab(
            lambda records, c=column, v=value: records.select("key", "value", f.lit(v).alias(c), "origin"), partitions=1
        )
        lab.fill(10)
        report = lab.run()
        assert not report.complete
        assert problem in report.summary()[0].reason
        assert lab.read() == []


def test_partitions_may_be_declared(make_lab: MakeLab) -> None:
    lab = make_lab(lambda records: records.select("key", "value", f.lit(2).alias("partition"), "origin"))
    lab.fill(90)
    assert lab.run().complete
    assert {message.partition() for message in lab.read()} == {2}
    assert lab.broken() == set()


def test_a_compacted_sink_is_refused() -> None:
    with pytest.raises(EosError, match="declared compacted"):
        declare(sink=[Topic("latest", compacted=True)])
