"""What a transform may be: any function of one record; whatever cannot be kept exact is refused or noticed."""

import random
import re
import struct
import uuid
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eos_assets.declare.options import Batching, Unique
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.experiment.faults import Faults
from eos_assets.pipelines.squares import squares
from eos_assets.run.preview import preview, sample_records
from eos_assets_tests.run.lab import Lab, MakeLab, declare, squared
from eos_assets_tests.run.test_poison_records import raising
from eos_assets_tests.waiting import wait_for


def test_a_transform_is_unit_tested_without_kafka(spark: SparkSession) -> None:
    given = [("a", "-12"), ("b", "x"), ("c", None), ("d", "1.5"), ("e", "5\n")]
    rows = squares.transform(sample_records(spark, given)).collect()
    assert [row.value for row in rows] == ["144", None, None, None, None]
    assert [row.error is None for row in rows] == [True, False, False, False, False]


@pytest.mark.connect
def test_one_record_gives_many_in_order(make_lab: MakeLab) -> None:
    def spread(records: DataFrame) -> DataFrame:
        parts = f.posexplode(f.split(f.col("value").cast("string"), ",")).alias("sequence", "value")
        return records.select("key", parts, "origin")

    lab = make_lab(spread, partitions=1)
    lab.produce([b"a,b,c"], key=b"k")
    lab.produce([b"d"], key=b"k")
    report = lab.run()
    assert lab.values() == [b"a", b"b", b"c", b"d"]
    assert (report.summary()[0].records_in, report.summary()[0].records_out) == (2, 4)
    assert lab.broken() == set()


def test_a_transform_without_a_shuffle_reports_none(lab: Lab) -> None:
    lab.fill(30)
    reported: list[str] = []
    assert lab.run(say=reported.append).complete
    assert reported == []


def test_an_alias_of_the_result_does_not_hide_the_origin(make_lab: MakeLab) -> None:
    """`origin.partition` would then be its column `partition`, and one partition would get the records of another."""

    def aliased(records: DataFrame) -> DataFrame:
        return squared(records).withColumn("partition", f.lit(1)).alias("origin")

    lab = make_lab(aliased)
    lab.fill(300)
    assert lab.run().complete
    found = [(message.partition(), int(message.value() or 0)) for message in lab.read()]
    assert sorted(found) == [(1, number * number) for number in range(300)]
    assert lab.broken() == set()


def test_words_that_a_session_reserves_are_no_obstacle(lab: Lab) -> None:
    setting = "spark.sql.ansi.enforceReservedKeywords"
    said = str(lab.spark.conf.get(setting))
    lab.spark.conf.set(setting, "true")
    try:
        lab.fill(30)
        assert lab.run().complete
        lab.assert_squares(range(30))
        assert lab.broken() == set()
    finally:
        lab.spark.conf.set(setting, said)


def test_outputs_stand_in_the_order_of_their_sequence(make_lab: MakeLab) -> None:
    def spread(records: DataFrame) -> DataFrame:
        parts = f.posexplode(f.split(f.col("value").cast("string"), ",")).alias("place", "value")
        return records.select("key", parts, "origin").select(
            "key", "value", (9 - f.col("place")).alias("sequence"), "origin"
        )

    lab = make_lab(spread, partitions=1)
    lab.produce([b"a,b,c", b"d"], key=b"k")
    assert lab.run().complete
    assert lab.values() == [b"c", b"b", b"a", b"d"]
    assert lab.broken() == set()
    lab.produce([b"e,f"], key=b"k")
    for number, told in (
        (f.lit(7), "two outputs of source offset 2 .* have the sequence 7"),
        (f.lit(None).cast("int"), "has no sequence"),
    ):
        wrong = lab.with_(transform=lambda r, number=number: spread(r).withColumn("sequence", number))
        (outcome,) = wrong.run().outcomes
        assert outcome.outcome == "failed"
        assert re.search(told, outcome.reason)
    assert len(lab.values()) == 4


def test_a_row_that_is_no_output_needs_no_sequence(make_lab: MakeLab) -> None:
    def spread(records: DataFrame) -> DataFrame:
        text = f.col("value").cast("string")
        parts = f.when(text != "", f.split(text, ","))
        rows = records.select("key", f.posexplode_outer(parts).alias("sequence", "value"), "origin")
        nothing = f.col("value").isNull()
        letter = f.when(nothing & f.col("key").isNull(), f.lit("nothing, and for nobody"))
        dash = f.coalesce(f.col("value") == "-", f.lit(False))
        skip = dash | (nothing & f.col("key").isNotNull())
        number = f.when(~dash, f.col("sequence")).alias("sequence")
        return rows.select("key", "value", number, skip.alias("skip"), letter.alias("error"), "origin")

    lab = make_lab(spread, partitions=1)
    lab.produce([b"a,-,b,-", b"", b"c"], key=b"k")
    lab.produce([b""], key=None)
    report = lab.run()
    assert report.complete, report.summary()
    assert lab.values() == [b"a", b"b", b"c"]
    assert (report.entries[0].skipped, report.entries[0].dead) == (2, 1)
    assert lab.broken() == set()


def test_the_outputs_of_one_record_are_never_torn_apart(make_lab: MakeLab) -> None:
    """More outputs than a slice and an Arrow batch hold."""

    def spread(records: DataFrame) -> DataFrame:
        numbers = f.sequence(f.lit(1), f.lit(60_000)).cast("array<string>")
        return records.select("key", f.explode(numbers).alias("value"), "origin")

    lab = make_lab(spread, partitions=1, batching=Batching(records=1))
    lab.produce([b"1", b"2", b"3"])
    report = lab.run()
    assert [entry.records_in for entry in report.entries] == [1, 1, 1]
    assert [entry.records_out for entry in report.entries] == [60_000] * 3
    for partition in {message.partition() for message in lab.read()}:
        values = [int(m.value() or 0) for m in lab.read() if m.partition() == partition]
        assert values == list(range(1, 60_001)) * (len(values) // 60_000)
    assert lab.broken() == set()


def test_a_wide_record_that_is_skipped_is_counted_once(make_lab: MakeLab) -> None:
    def spread(records: DataFrame) -> DataFrame:
        numbers = f.sequence(f.lit(1), f.lit(60_000)).cast("array<string>")
        return records.select("key", f.explode(numbers).alias("value"), f.lit(True).alias("skip"), "origin")

    lab = make_lab(spread, partitions=1)
    lab.produce([b"1", b"2"])
    report = lab.run()
    assert report.complete
    assert sum(entry.skipped for entry in report.entries) == 2
    assert lab.broken() == set()


def test_a_million_outputs_are_enough_for_one_transaction(make_lab: MakeLab) -> None:
    def spread(records: DataFrame) -> DataFrame:
        numbers = f.sequence(f.lit(1), f.lit(4_000)).cast("array<string>")
        return records.select(f.explode(numbers).alias("value"), "origin")

    lab = make_lab(spread, partitions=1)
    lab.produce([b"%d" % n for n in range(300)])
    outputs = [entry.records_out for entry in lab.run().entries]
    assert sum(outputs) == 1_200_000
    assert 1_000_000 <= outputs[0] < 1_050_000


def test_skips_are_named_and_counted(make_lab: MakeLab) -> None:
    def odd_only(records: DataFrame) -> DataFrame:
        even = f.col("value").cast("string").cast("long") % 2 == 0
        return records.select("key", "value", even.alias("skip"), "origin")

    lab = make_lab(odd_only)
    lab.fill(300)
    report = lab.run()
    assert sum(outcome.skipped for outcome in report.summary()) == 150
    assert sorted(int(v or 0) for v in lab.values()) == list(range(1, 300, 2))
    assert lab.broken() == set()


def test_a_plain_filter_is_refused_unless_it_is_declared(make_lab: MakeLab) -> None:
    def odd_only(records: DataFrame) -> DataFrame:
        return records.where(f.col("value").cast("string").cast("long") % 2 == 1).select("key", "value", "origin")

    lab = make_lab(odd_only)
    lab.fill(300)
    report = lab.run()
    assert not report.complete
    assert "declare drops=True" in report.summary()[0].reason
    assert lab.read() == []
    dropping = lab.with_(drops=True)
    assert dropping.run().complete
    assert sorted(int(v or 0) for v in lab.values()) == list(range(1, 300, 2))
    assert dropping.lag() == 0
    assert dropping.broken() == set()


@pytest.mark.connect
def test_what_a_filter_drops_is_counted_per_transaction_and_proven(make_lab: MakeLab) -> None:
    """Also by an attempt that goes on where another one died, and nowhere where nobody saw what was dropped."""

    def some(records: DataFrame) -> DataFrame:
        return records.where("origin.offset % 10 != 0 and origin.offset < 95").select("key", "value", "origin")

    lab = make_lab(some, partitions=1, drops=True, batching=Batching(records=20))
    lab.fill(100)
    failures = Faults(probability=0.3, seed=4)
    report = lab.run(failures)
    assert report.complete
    assert report.failures or any(entry.task_attempt for entry in report.entries), "some attempt has failed"
    for entry in report.entries[:-1]:
        wanted = sum(offset % 10 == 0 for offset in range(entry.start, entry.next))
        assert (entry.dropped, entry.records_in) == (wanted, entry.next - entry.start - wanted)
    assert report.entries[-1].dropped is None, "nobody saw what was dropped behind the last row"
    assert lab.broken() == set()
    other = lab.with_(transform=lambda records: some(records).where("origin.offset % 10 != 7"))
    found = other.verify()["none_missing"]
    assert not found.holds
    assert "records were dropped; running the transform again drops" in found.examples[0]


def test_a_filter_that_looks_things_up_is_refused() -> None:
    with pytest.raises(EosError, match="drops=True and deterministic=False"):
        declare(drops=True, deterministic=False)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_partition_whose_rows_are_all_filtered_is_closed(make_lab: MakeLab, kept: int) -> None:
    """F28: its task gets no row and cannot know its partition."""

    def few(records: DataFrame) -> DataFrame:
        return records.where(f"origin.partition = 0 and origin.offset < {kept}").select("key", "value", "origin")

    lab = make_lab(few, drops=True)
    lab.fill(300)
    assert lab.run().complete
    assert lab.lag() == 0
    assert len(lab.read()) == kept
    assert lab.broken() == set()


@pytest.mark.connect
@pytest.mark.parametrize(
    "hidden",
    [
        lambda records: records.repartition(4),
        lambda records: records.coalesce(1),
        lambda records: records.orderBy(f.xxhash64("value")),
        lambda records: records.where("origin.offset % 2 = 0").union(records.where("origin.offset % 2 = 1")),
        lambda records: records.groupBy("origin").agg(f.first("key").alias("key"), f.first("value").alias("value")),
    ],
    ids=["repartition", "coalesce", "sort", "union", "groupBy"],
)
def test_a_hidden_shuffle_loses_nothing(make_lab: MakeLab, hidden) -> None:  # type: ignore[no-untyped-def]
    """F28: without bringing the rows back, the first task would commit the whole range and the rest would be lost."""
    lab = make_lab(lambda records: squared(hidden(records)))
    lab.fill(900)
    reported: list[str] = []
    assert lab.run(Faults(probability=0.3, seed=4), say=reported.append).complete
    (shuffle,) = [text for text in reported if "together and in order" in text]
    assert "twice as long" in shuffle
    lab.assert_squares(range(900))
    assert lab.lag() == 0
    assert lab.broken() == set()


def test_a_text_that_looks_like_a_plan_hides_no_shuffle(make_lab: MakeLab) -> None:
    """What a user wrote stands in the words of a plan: with this literal, read as nodes, the shuffle would be gone."""

    def lettered(records: DataFrame) -> DataFrame:
        letter = f.concat(f.lit("Name: "), f.col("value").cast("string"), f.lit("\nProject: none\n\n+- Sample: no"))
        return records.select("key", letter.alias("value"), "origin").repartition(4, "key")

    lab = make_lab(lettered, drops=True)
    lab.fill(400)
    assert lab.run().complete
    assert len(lab.read()) == 400
    assert lab.broken() == set()


@pytest.mark.connect
def test_a_small_table_may_be_joined(make_lab: MakeLab, spark: SparkSession) -> None:
    names = spark.createDataFrame([(n, f"name-{n}") for n in range(300)], "number string, name string")

    def named(records: DataFrame) -> DataFrame:
        joined = records.join(f.broadcast(names), f.col("value").cast("string") == f.col("number"), "left")
        return joined.select("key", f.col("name").alias("value"), "origin")

    lab = make_lab(named)
    lab.fill(300)
    assert lab.run().complete
    assert sorted(v or b"" for v in lab.values()) == sorted(b"name-%d" % n for n in range(300))
    assert lab.broken() == set()


@pytest.mark.parametrize("on_error", ["stop", "isolate"])
def test_a_row_without_an_origin_is_refused_at_once(make_lab: MakeLab, spark: SparkSession, on_error: str) -> None:
    """An outer join gives what matches no record, too. No record is to blame for that, and none is set aside."""
    names = spark.createDataFrame([("0", "zero"), ("x", "nobody")], "number string, name string")

    def named(records: DataFrame) -> DataFrame:
        joined = records.join(names, f.col("value").cast("string") == f.col("number"), "full")
        return joined.select("key", f.col("name").alias("value"), "origin")

    lab = make_lab(named, partitions=1, on_error=on_error)
    lab.fill(3)
    with pytest.raises(EosError, match=r"returned a row without an origin(.|\n)*join with `left`"):
        lab.run()
    with pytest.raises(EosError, match="returned a row without an origin"):
        preview(lab.pipeline, lab.spark, lab.connection, 3)
    assert lab.read() == []
    assert lab.read(lab.pipeline.names().dead_letters) == []


def test_a_task_that_fails_closes_no_partition(make_lab: MakeLab, spark: SparkSession) -> None:
    """It may have had rows of any of them: those from which no row came are committed only if every task is done."""
    names = spark.createDataFrame([("x", "nobody")], "number string, name string")

    def named(records: DataFrame) -> DataFrame:
        joined = records.join(names, f.col("value").cast("string") == f.col("number"), "full")
        return joined.where("name is not null").select("key", f.col("name").alias("value"), "origin")

    lab = make_lab(named, drops=True)
    lab.fill(90)
    with pytest.raises(EosError, match="returned a row without an origin"):
        lab.run()
    assert lab.lag() == 90
    assert lab.read(lab.pipeline.names().ledger, "read_uncommitted") == []


def test_a_table_that_is_joined_may_be_limited(make_lab: MakeLab, spark: SparkSession) -> None:
    """The result does not depend on where the source is cut."""
    few = spark.range(1000).limit(1000).select(f.col("id").cast("string").alias("number"))

    def known(records: DataFrame) -> DataFrame:
        joined = records.join(f.broadcast(few), f.col("value").cast("string") == f.col("number"), "left")
        return joined.select("key", f.col("number").alias("value"), "origin")

    lab = make_lab(known)
    lab.fill(90)
    assert lab.run().complete
    assert sorted(int(v or -1) for v in lab.values()) == list(range(90))


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
    alone = lab.with_(sinks=(one,), code_version="later")
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


def test_a_topic_that_is_not_as_declared_is_refused_before_anything_runs(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.fill(30)
    more = lab.with_(sinks=(replace(lab.pipeline.sinks[0], partitions=4),))
    with pytest.raises(EosError, match="partitions is 3, declared 4"):
        more.run()
    fewer = lab.with_(source=replace(lab.pipeline.source, partitions=4))
    with pytest.raises(EosError, match="partitions is 3, declared 4"):
        fewer.run()
    ledger = ConfigResource(ResourceType.TOPIC, lab.pipeline.names().ledger)
    ledger.add_incremental_config(ConfigEntry("retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET))
    for future in lab.connection.admin.incremental_alter_configs([ledger]).values():
        future.result()
    with pytest.raises(EosError, match=r"retention.ms is 86400000, declared -1"):
        lab.run()
    assert lab.read() == []


def test_a_compacted_sink_is_refused() -> None:
    with pytest.raises(EosError, match="declared compacted"):
        declare(sink=[Topic("latest", compacted=True)])


def test_a_topic_or_partition_that_is_not_declared_commits_nothing(make_lab: MakeLab) -> None:
    for column, value, told in (("topic", "elsewhere", "not declared"), ("partition", 7, "partition 7")):
        lab = make_lab(
            lambda records, c=column, v=value: records.select("key", "value", f.lit(v).alias(c), "origin"), partitions=1
        )
        lab.fill(10)
        report = lab.run()
        assert not report.complete
        assert told in report.summary()[0].reason
        assert lab.read() == []


def test_partitions_may_be_declared(make_lab: MakeLab) -> None:
    lab = make_lab(lambda records: records.select("key", "value", f.lit(2).alias("partition"), "origin"))
    lab.fill(90)
    assert lab.run().complete
    assert {message.partition() for message in lab.read()} == {2}
    assert lab.broken() == set()


@pytest.mark.connect
def test_headers_timestamps_and_nulls_are_kept(make_lab: MakeLab) -> None:
    def same(records: DataFrame) -> DataFrame:
        return records.select("key", "value", "headers", "timestamp", "origin")

    lab = make_lab(same, partitions=1)
    lab.produce([b"v"], key=b"k", headers=[("a", b"1"), ("a", b"2"), ("b", None)])
    lab.produce([None], key=b"tombstone")
    lab.produce([b"no key"], key=None)
    lab.produce([b""], key=b"")
    before = lab.read(lab.source)
    assert lab.run().complete
    after = lab.read()
    as_written = [(m.key(), m.value(), m.headers() or None, m.timestamp()) for m in before]
    assert sorted(map(repr, as_written)) == sorted(
        repr((m.key(), m.value(), m.headers() or None, m.timestamp())) for m in after
    )
    assert lab.broken() == set()


def test_records_of_a_megabyte_go_through(make_lab: MakeLab) -> None:
    name = f"megabytes-{uuid.uuid4().hex[:8]}"
    lab = make_lab(
        lambda records: records.select("key", "value", "origin"),
        source=Topic(f"{name}-in", partitions=1, max_message_bytes=5_000_000),
        sink=[Topic(f"{name}-out", partitions=1, max_message_bytes=5_000_000)],
    )
    payloads = [bytes([65 + n]) * 1_200_000 for n in range(12)]
    lab.produce(payloads, key=b"k")
    assert lab.run().complete
    assert lab.values() == payloads
    assert lab.broken() == set()


def test_a_sink_that_takes_small_batches_gets_small_ones(make_lab: MakeLab) -> None:
    """Each record fits; librdkafka's batches of a megabyte would not, and random bytes do not get smaller."""
    name = f"small-{uuid.uuid4().hex[:8]}"
    lab = make_lab(
        lambda records: records.select("value", "origin"),
        partitions=1,
        sink=[Topic(name, partitions=1, max_message_bytes=100_000)],
    )
    payloads = [random.Random(n).randbytes(1000) for n in range(500)]
    lab.produce(payloads)
    report = lab.run()
    assert report.complete, report.summary()
    assert lab.values() == payloads
    assert lab.broken() == set()


def test_an_empty_source_and_empty_partitions_are_no_work(make_lab: MakeLab) -> None:
    lab = make_lab()
    report = lab.run()
    assert report.complete
    assert report.summary() == []
    lab.produce([b"1", b"2"], partition=1)
    assert lab.run().complete
    lab.assert_squares([1, 2])
    again = lab.run()
    assert again.complete
    assert again.entries == [], "nothing new to do is a success that writes nothing"


@pytest.mark.connect
def test_a_result_without_origin_is_refused_before_anything_runs(make_lab: MakeLab) -> None:
    wrong = {
        "no column `origin`": lambda r: r.select("key", "value"),
        "or a changed one": lambda r: r.select("value", f.lit(1).alias("origin")),
        "no column `value`": lambda r: r.select("key", "origin"),
        "`note`, which means nothing": lambda r: r.select("value", "origin", f.lit(1).alias("note")),
        "is bigint": lambda r: r.select(f.lit(1).cast("long").alias("value"), "origin"),
        "cannot be planned": lambda r: r.select("no_such_column", "origin"),
        "more than one column `value`": lambda r: r.select("value", f.col("key").alias("value"), "origin"),
    }
    lab = make_lab()
    lab.fill(30)
    for told, transform in wrong.items():
        with pytest.raises(EosError, match=told):
            lab.with_(transform=transform).run()
        with pytest.raises(EosError, match=told):
            preview(lab.with_(transform=transform).pipeline, lab.spark, lab.connection, 3)
    assert lab.read() == []


def test_the_reason_of_a_dead_letter_is_cut_to_fit(make_lab: MakeLab) -> None:
    def wordy(records: DataFrame) -> DataFrame:
        return records.select("key", "value", f.repeat(f.lit("no! "), 1_000_000).alias("error"), "origin")

    lab = make_lab(wordy, partitions=1, sink=[Topic(f"wordy-{uuid.uuid4().hex[:8]}", retention_ms=86_400_000)])
    lab.produce([b"1"])
    assert lab.run().complete
    (letter,) = lab.read(lab.pipeline.names().dead_letters)
    assert dict(letter.headers() or [])["eos.error"] == b"no! " * 1000
    (kept,) = [t for t in lab.pipeline.own_topics() if t.name == lab.pipeline.names().dead_letters]
    assert kept.retention_ms == 86_400_000, "as long as the sink"
    assert lab.broken() == set()


def test_a_reason_and_a_key_that_are_no_text_stop_nothing(make_lab: MakeLab) -> None:
    def quoting(records: DataFrame) -> DataFrame:
        text = f.col("value").cast("string")
        wrong = f.when(text.try_cast("long").isNull(), f.concat(f.lit("no integer: "), text))
        return records.select("key", "value", wrong.alias("error"), "origin")

    lab = make_lab(quoting, partitions=1, unique=Unique("key"))
    key = struct.pack(">q", 200)  # as Java's LongSerializer writes it
    lab.produce([b"1", b"\xff\xfe\x80abc", b"2"], key=key)
    assert lab.run().complete
    (letter,) = lab.read(lab.pipeline.names().dead_letters)
    assert letter.value() == b"\xff\xfe\x80abc"
    assert str(dict(letter.headers() or [])["eos.error"]).endswith("abc'")
    found = lab.verify()
    assert found["source_is_unique"].examples == ("records=3, business_key=0x00000000000000C8",)
    assert lab.broken() == set()
    by_number = lab.with_(unique=Unique("try_cast(cast(value as string) as bigint) % 1"))
    assert by_number.verify()["source_is_unique"].examples == ("records=2, business_key=0",)
    wrong = lab.with_(unique=Unique("valeu"))
    for look in (wrong.run, wrong.proof):
        with pytest.raises(EosError, match=r"Unique\(by='valeu'\) is not valid"):
            look()
    raising_now = lab.with_(transform=raising)
    with pytest.raises(EosError, match=r"could not be proven to the end: .*CAST_INVALID_INPUT"):
        raising_now.proof(full=True)


@pytest.mark.connect
def test_preview_shows_inputs_and_outputs_and_writes_nothing(lab: Lab) -> None:
    lab.fill(30)
    shown = preview(lab.pipeline, lab.spark, lab.connection, 5)
    assert len(shown) == 5
    for found in shown:
        assert int(found.results[0].value) == int(bytes(found.source.value)) ** 2
    for partition in range(3):
        lab.produce_transaction([b"1"] * 50, commit=False, partition=partition)
    assert preview(lab.pipeline, lab.spark, lab.connection, 5) == shown, "aborted records hide none"
    assert lab.read() == []


def test_preview_shows_a_string_that_is_no_text(make_lab: MakeLab) -> None:
    def quoted(records: DataFrame) -> DataFrame:
        text = f.col("value").cast("string")
        return records.select("key", text.alias("value"), f.when(f.col("key").isNull(), text).alias("error"), "origin")

    lab = make_lab(quoted, partitions=1)
    lab.produce([b"\xff1", None], key=b"k")
    lab.produce([b"\xfe2"], key=None)
    shown = preview(lab.pipeline, lab.spark, lab.connection, 5)
    results = [[(row.value, row.error) for row in found.results] for found in shown]
    assert results == [[("\ufffd1", None)], [(None, None)], [("\ufffd2", "\ufffd2")]]


def test_a_changed_transform_goes_on_at_the_same_position_and_is_told(make_lab: MakeLab) -> None:
    from eos_assets.verify.verify import verify_pipeline

    lab = make_lab(partitions=1)
    lab.fill(100)
    lab.run()
    changed = lab.with_(transform=lambda records: records.select("key", "value", "origin"), code_version="another")
    lab.fill(50)
    changed.run()
    values = [int(value or 0) for value in lab.values()]
    assert sorted(values) == sorted([n * n for n in range(100)] + list(range(100, 150)))
    result = verify_pipeline(changed.pipeline, lab.spark, lab.connection)
    assert result.versions == [f"partition 0: from 0: {lab.pipeline.code_version}; from 100: another"]
    assert result.holds, "what other code wrote is not compared with the code of today"
    (values_recompute,) = [finding for finding in result.findings if finding.name == "values_recompute"]
    assert "100 offsets were written by other code" in values_recompute.detail
    again = verify_pipeline(changed.pipeline, lab.spark, lab.connection)
    assert again.incremental
    assert again.versions == result.versions
