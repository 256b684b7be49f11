"""The tables that a proof is made of, read from the topics by Spark and brought into the order that the judges need."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import Code
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import provenance
from eos_assets.log.digest import digest_expression
from eos_assets.log.ranges import OffsetRange
from eos_assets.run.partition_alignment import narrow_path
from eos_assets.sink.router import choose_partitions as partitions
from eos_assets.state.fold import home_partition
from eos_assets.transform.business_key import repeated_keys
from eos_assets.transform.result_schema import apply_transform, worker_rows
from eos_assets.transform.source import ORDINAL, read_ranges, read_records
from eos_assets.transform.spark_errors import classify
from eos_assets.verify.context import KEPT, NAMED, RECORD
from eos_assets.verify.observations import TOLD, TOLD_SCHEMA
from eos_assets.verify.state_checker import StateProof
from eos_assets.verify.window import Window
from eos_assets.worker_path import drop_archives

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MAP_SCHEMA = (
    "source_partition int, start long, topic int, sink_partition int, sink_offset long, source_offset long, "
    "sequence long"
)
#: The number that stands for "skipped on purpose" among the topics.
SKIPPED = -1
Batches = Iterable[pa.RecordBatch]


class Tables:
    """Source, maps and sinks within one window. Topics go by their number: the sinks, then the dead letters."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: "SparkSession",
        connection: Connection,
        mode: Mode,
        window: Window,
        proof: StateProof | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.connection = connection
        self.window = window
        self.proof = proof
        self.mode = mode
        self.names = pipeline.names(mode)
        self.topics = window.written
        self.sinks = self.topics[:-1]
        self.counts = [len(window.bounds[topic]) for topic in self.sinks]
        self.retained = [w.source for w in window.partitions.values() if w.source.size]
        self.repeatable = [w.repeatable for w in window.partitions.values() if w.repeatable.size]

    @functools.cached_property
    def result_columns(self) -> list[str]:
        """The columns of the transform's result."""
        everywhere = [OffsetRange(p, 0, 1) for p in self.window.partitions]
        source = read_records(self.spark, self.connection, self.pipeline.source.name, everywhere)
        return list(apply_transform(self.pipeline, source).columns)

    def along_the_sinks(self, isolation: str) -> "DataFrame":
        """Every visible record of the sinks and dead letters, and every map row, side by side in the sink's order."""
        columns = ["topic", "sink_partition", "sink_offset", "tag", "key", "digest"]
        more = ["source_partition", "start", "source_offset", "sequence", "vanished"]
        named = self.maps().where("sink_offset >= 0 and topic >= 0")
        if self.window.source_is_compacted:
            named = self.with_vanished(named)
        frames = [self.sink_records(number, isolation) for number in range(len(self.topics))]
        rows = unioned([select(frame, [*columns, *more]) for frame in (*frames, named)])
        place = ["topic", "sink_partition"]
        return rows.repartition(*place).sortWithinPartitions(*place, "sink_offset", "tag")

    def with_vanished(self, named: "DataFrame") -> "DataFrame":
        """Map rows of a compacted source, with a 1 where their source record is no longer there."""
        from pyspark.sql import functions as f

        there = self.source_records().select("source_partition", "source_offset", f.lit(0).alias("there"))
        joined = named.join(there, ["source_partition", "source_offset"], "left")
        return joined.withColumn("vanished", f.coalesce("there", f.lit(1)))

    def along_the_source(self) -> "DataFrame":
        """Every visible source record, and every map row, side by side in the source's order."""
        columns = ["source_partition", "source_offset", "tag", "sequence", "start", "sink_offset"]
        frames = [self.source_records(), self.maps()]
        if self.pipeline.drops and self.repeatable:
            frames.append(self.origins_again())
        rows = unioned([select(frame, columns) for frame in frames])
        return rows.repartition("source_partition").sortWithinPartitions(*columns[:4])

    def source(self) -> "DataFrame":
        """The source records that are still there, as Spark's reader gives them."""
        return read_ranges(self.spark, self.connection, self.pipeline.source.name, self.retained)

    def source_records(self) -> "DataFrame":
        return self.source().selectExpr(
            "`partition` AS source_partition", "`offset` AS source_offset", f"{RECORD} AS tag"
        )

    def maps(self) -> "DataFrame":
        ranges = self.window.ranges(self.names.provenance)
        read = read_ranges(self.spark, self.connection, self.names.provenance, ranges)
        return unfolded(read, self.names.provenance, self.topics).selectExpr("*", f"{NAMED} AS tag")

    def sink_records(self, number: int, isolation: str) -> "DataFrame":
        ranges = self.window.ranges(self.topics[number], isolation)
        options = {"kafka.isolation.level": isolation}
        read = read_ranges(self.spark, self.connection, self.topics[number], ranges, **options)
        return read.selectExpr(
            f"{number} AS topic",
            "`partition` AS sink_partition",
            "`offset` AS sink_offset",
            f"{RECORD} AS tag",
            "key",
            f"{digest_expression(with_headers=True)} AS digest",  # a record without headers has the same digest either way
        )

    def again(self) -> "DataFrame":
        """Every output of the transform, run once more with ranges cut at other places than the run's: the topic and
        partition where it belongs, its digest and its origin. Of a dead letter the origin alone."""
        from pyspark.sql import functions as f

        cuts = {"minPartitions": str(2 * len(self.repeatable))}
        rows = self.rerun(**cuts)
        if "skip" in rows.columns:
            rows = rows.where("skip is null or not skip")
        columns = ["topic", "key", "o_partition", "o_offset", "digest", *({"partition"} & set(rows.columns))]
        routed = rows.withColumn("topic", topic_column(rows, self.sinks[0], self.names.sink))
        letters = self.names.dead_letters
        if "error" in rows.columns and not self.compares_letters:
            routed = routed.where("error is null")
        elif "error" in rows.columns:
            wrong = f.col("error").isNotNull()
            routed = routed.withColumn("topic", f.when(wrong, f.lit(letters)).otherwise(f.col("topic")))
            routed = routed.withColumn("digest", f.when(wrong, f.lit(0)).otherwise(f.col("digest")))
        counts = dict(zip(self.sinks, self.counts, strict=True))
        return routed.select(*columns).mapInArrow(placed(counts, letters), TOLD_SCHEMA)

    @property
    def compares_letters(self) -> bool:
        """Whether running the transform again must give the very dead letters that are there: not where records were
        set aside because it raises."""
        return self.mode is Mode.EXACTLY_ONCE and self.proof is None and self.pipeline.on_error == "stop"

    def rerun(self, **options: str) -> "DataFrame":
        """What the pipeline gives again for all that can be compared, as it travels to a writer."""
        from pyspark.sql import functions as f

        if self.proof is None:
            at_once = self.transformed(self.repeatable, **options)
            if narrow_path(at_once, self.pipeline) is not None:
                return at_once
            return unioned([self.transformed(half, **options) for half in self.halves()])
        starts = [f.lit(number) for r in self.repeatable for number in (r.partition, r.start)]
        rows = self.proof.again(self.bearable(self.proof.ranges, **options)).outputs
        return rows.where(f.col("o_offset") >= f.create_map(*starts)[f.col("o_partition")])

    def transformed(self, ranges: list[OffsetRange], **options: str) -> "DataFrame":
        return worker_rows(apply_transform(self.pipeline, self.bearable(ranges, **options)))

    def halves(self) -> tuple[list[OffsetRange], list[OffsetRange]]:
        """All that can be compared, cut in two where no transaction began: behind a shuffle a transform could combine
        records, and here they are others than in the run."""
        before, behind = [], []
        for r in self.repeatable:
            begins = {entry.start for entry in self.window.partitions[r.partition].entries}
            middle = next((at for at in range((r.start + r.end) // 2, r.end) if at not in begins), r.end)
            before.append(OffsetRange(r.partition, r.start, middle))
            behind.append(OffsetRange(r.partition, middle, r.end))
        return before, behind

    def origins_again(self) -> "DataFrame":
        """The origins that the transform keeps, for one that drops records."""
        from pyspark.sql import functions as f

        origin = self.rerun().selectExpr("o_partition as source_partition", "o_offset as source_offset")
        if self.pipeline.on_error == "isolate":
            origin = origin.unionByName(self.set_aside().drop("aside"))
        return origin.withColumn("tag", f.lit(KEPT))

    def set_aside(self) -> "DataFrame":
        """The origins of which nothing came but dead letters."""
        from pyspark.sql import functions as f

        letter = f.col("topic") == len(self.sinks)
        named = self.maps().groupBy("source_partition", "source_offset")
        return named.agg(f.bool_and(letter).alias("aside")).where("aside")

    def bearable(self, ranges: list[OffsetRange], **options: str) -> "DataFrame":
        """The records to run the transform on again, without those that were set aside because it raises on them."""
        source = read_records(self.spark, self.connection, self.pipeline.source.name, ranges, **options)
        if self.pipeline.on_error == "stop" or self.proof:
            return source  # a proof of state knows itself what was set aside
        return without(self.set_aside(), source)

    def misplaced(self) -> "DataFrame":
        """Source records of a stateful pipeline that lie where their key does not belong."""
        from pyspark.sql import functions as f

        read = self.source()
        count = len(self.connection.partitions(self.pipeline.source.name))
        rows = read.select("partition", "offset", home_partition(count)("key").alias("home")).where("home != partition")
        place = f.concat(
            f.lit(f"topic={self.pipeline.source.name}, partition="), "partition", f.lit(", offset="), "offset"
        )
        told = f.concat(place, f.lit(", expected="), "home")
        found = rows.select(f.lit("routed_correctly").alias("kind"), told.alias("text"), f.lit(1).alias("n"))
        return select(found, TOLD.names)

    def repeated_keys(self) -> "DataFrame":
        """Business keys that the source holds more than once."""
        found = repeated_keys(self.source(), self.pipeline)
        return select(found.selectExpr("'source_is_unique' AS kind", "text", "1 AS n"), TOLD.names)


def select(frame: "DataFrame", columns: list[str]) -> "DataFrame":
    """These columns of a frame, null where it has none."""
    types = {"key": "binary", "kind": "string", "text": "string"}
    integer = {"topic", "sink_partition", "source_partition", "tag", "vanished"}
    there = set(frame.columns)
    return frame.selectExpr(
        *(
            f"CAST({f'`{c}`' if c in there else 'NULL'} AS {types.get(c, 'int' if c in integer else 'long')}) AS `{c}`"
            for c in columns
        )
    )


def unioned(frames: list["DataFrame"]) -> "DataFrame":
    return functools.reduce(lambda one, other: one.unionByName(other), frames)


def without(aside: "DataFrame", source: "DataFrame") -> "DataFrame":
    """The records of a source but for these origins."""
    from pyspark.sql import functions as f

    here = (source["origin.partition"] == aside["source_partition"]) & (
        source["origin.offset"] == aside["source_offset"]
    )
    borne = source.join(f.broadcast(aside), here, "left_anti")
    # Counted anew above the join: Spark moves no filter below that, to where the records still are that raise.
    return borne.withColumn("origin", f.expr(f"struct(`origin`.`partition`, `origin`.`offset`, {ORDINAL} AS ordinal)"))


def topic_column(rows: "DataFrame", default: str, name: Callable[[str], str]) -> "Column":
    from pyspark.sql import functions as f

    if "topic" not in rows.columns:
        return f.lit(default)
    return f.coalesce(f.concat("topic", f.lit(name(""))), f.lit(default))


def check_maps(failure: Exception, connection: Connection, topic: str) -> None:
    """Reads the provenance topic here, after a function raised in a task over it: a message that is not a map is an
    error of its own, and the report of the failed task need not be interpreted."""
    if classify(failure).code is Code.TRANSFORM_RAISED:
        starts = {(topic, partition): 0 for partition in connection.partitions(topic)}
        for message in read_partitions(connection, starts):
            provenance.read(message)


def unfolded(read: "DataFrame", provenance_topic: str, topics: list[str]) -> "DataFrame":
    """The messages of a provenance topic in, one row per output or skip out."""
    return read.select("partition", "offset", "value").mapInArrow(unfold(provenance_topic, topics), MAP_SCHEMA)


def unfold(provenance_topic: str, topics: list[str]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    numbers = {topic: number for number, topic in enumerate(topics)}

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        drop_archives()
        for batch in batches:
            for message in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                found = provenance.read_at(provenance_topic, *message)
                rows = len(found.source_offsets)
                yield pa.record_batch(
                    {
                        "source_partition": constant(found.source_partition, rows, pa.int32()),
                        "start": constant(found.start, rows, pa.int64()),
                        "topic": constant(numbers.get(found.topic, SKIPPED), rows, pa.int32()),
                        "sink_partition": constant(found.partition, rows, pa.int32()),
                        "sink_offset": pa.array(found.sink_offsets),
                        "source_offset": pa.array(found.source_offsets),
                        "sequence": pa.array(found.sequences),
                    }
                )

    return task


def constant(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


def placed(counts: dict[str, int], letters: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Outputs in, each as one more of its content in the partition where it belongs out. That of a dead letter is the
    one of its origin."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            encoded = batch["topic"].dictionary_encode()
            for number, topic in enumerate(encoded.dictionary.to_pylist()):
                rows = batch.filter(pa.array(encoded.indices.to_numpy() == number))
                given = rows["partition"] if "partition" in rows.schema.names else None
                where = rows["o_partition"].to_numpy()
                if topic != letters:
                    where = partitions(rows["key"], given, where, counts.get(topic, 1))
                yield pa.record_batch(
                    [
                        pa.repeat("content", rows.num_rows),
                        rows["topic"],
                        pa.array(where.astype(np.int32)),
                        rows["digest"],
                        constant(1, rows.num_rows, pa.int64()),
                        pa.nulls(rows.num_rows, pa.int64()),
                        rows["o_partition"],
                        rows["o_offset"],
                    ],
                    schema=TOLD,
                )

    return task
