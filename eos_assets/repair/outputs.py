"""Compare each output that the transform gives with the records that the maps name: in one Spark job, by output."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.declare.names import Names
from eos_assets.declare.pipeline import Pipeline
from eos_assets.log.ranges import OffsetRange
from eos_assets.run.partition_alignment import align_to_source
from eos_assets.sink.numbering import Numbering
from eos_assets.sink.repair import SKIP, flags
from eos_assets.sink.router import Integers
from eos_assets.sink.task import Task, split_by_partition
from eos_assets.transform.arrow_function import ArrowFunction
from eos_assets.transform.result_schema import apply_transform, worker_rows
from eos_assets.verify.recomputation import Recomputation
from eos_assets.verify.scope import ProofScope, expected_partitions
from eos_assets.verify.topic_frames import TopicFrames, cast_columns, union
from eos_assets.worker_path import drop_archives

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The outputs that the transform gives. A skip has no place.
EXPECTED = pa.schema(
    [
        ("source_partition", pa.int32()),
        ("source_offset", pa.int64()),
        ("output", pa.int64()),
        ("topic", pa.int32()),
        ("sink_partition", pa.int32()),
        ("digest", pa.int64()),
    ]
)
ORIGIN = ["source_partition", "source_offset"]
#: `output` is the sequence, or SKIP.
OUTPUT = [*ORIGIN, "output"]
PLACE = ["topic", "sink_partition", "sink_offset"]

#: What may be wrong with an output. An extra one is visible, although the transform does not give it.
MISSING, MOVED, CHANGED, EXTRA, NOT_GIVEN = "missing", "moved", "changed", "extra", "not given"


@dataclass(frozen=True)
class OutputFrames:
    """The outputs of one window: what they should be, what the maps name and what is visible."""

    recomputation: Recomputation
    scope: ProofScope

    @property
    def frames(self) -> TopicFrames:
        return self.recomputation.frames

    @property
    def recomputes(self) -> bool:
        """Whether the transform can run again. A fold would need the state of that moment."""
        pipeline = self.recomputation.context.pipeline
        repeatable = pipeline.deterministic and not pipeline.stateful and columns_are_known(pipeline)
        return repeatable and bool(self.recomputation.window.recomputable)

    def expected(self) -> "DataFrame":
        """Every output, dead letter and skip that the transform gives."""
        from pyspark.sql.pandas.types import from_arrow_schema

        context, schema = self.recomputation.context, from_arrow_schema(EXPECTED)
        if not self.recomputes:
            return context.spark.createDataFrame([], schema)
        ranges = self.recomputation.window.recomputable
        records = self.recomputation.source_records(ranges)
        rows = returned_rows(context.pipeline, records, ranges)
        task = expecting_task(self.scope, context.names, context.pipeline.sinks[0].name)
        return align_to_source(rows, task, context.pipeline, len(ranges), schema).outcomes.distinct()

    def visible(self) -> "DataFrame":
        """Place and digest of each visible record of the sinks and of the dead letters."""
        columns = [*PLACE, "digest"]
        topics = range(len(self.frames.topics))
        return union([cast_columns(self.frames.sink_records(n, "read_committed"), columns) for n in topics])

    def named(self) -> "DataFrame":
        """The map rows of the window's transactions and of their repairs."""
        from pyspark.sql import functions as f

        place = f.when(f.col("start") < 0, f.col("source_offset")).otherwise(f.col("start"))
        covered = (place >= self.offset_of("start")) & (place < self.offset_of("end"))
        readable = (f.col("topic") >= 0) | (f.col("sink_offset") < 0)
        output = f.when(f.col("sink_offset") < 0, f.lit(SKIP)).otherwise(f.col("sequence"))
        return self.frames.maps().where(covered & readable).withColumn("output", output)

    def offset_of(self, name: str) -> "Column":
        """An offset of the scope of each row's source partition."""
        from pyspark.sql import functions as f

        pairs = [f.lit(value) for p, each in self.scope.partitions.items() for value in (p, getattr(each, name))]
        return f.create_map(*pairs)[f.col("source_partition")]

    def written(self) -> "DataFrame":
        """One row per output that the maps name: its visible records in order, and the last row that names it."""
        from pyspark.sql import functions as f

        rows = self.named().join(self.visible(), PLACE, "left")
        is_visible = f.col("digest").isNotNull() | (f.col("sink_offset") < 0)
        record = f.struct(*PLACE, "digest")
        return rows.groupBy(*OUTPUT).agg(
            f.sort_array(f.collect_list(f.when(is_visible, record))).alias("records"),
            f.max(f.struct("map_offset", "start", *PLACE)).alias("last"),
        )

    def problems(self) -> "DataFrame":
        """The outputs that are not as the transform gives them, with the kind of problem."""
        from pyspark.sql import functions as f

        given = self.expected().select(*OUTPUT, f.struct("topic", "sink_partition", "digest").alias("given"))
        both = self.written().join(given, OUTPUT, "full")
        present = f.coalesce(f.size("records"), f.lit(0)) > 0
        record, last = f.get("records", f.lit(0)), f.col("last")
        is_sink = f.col("given.topic").between(0, len(self.scope.sink_partitions) - 1)
        problem = (
            f.when(f.col("given").isNull() & ~present, f.lit(NOT_GIVEN))
            .when(f.col("given").isNull(), f.when(self.runs_again(), f.lit(EXTRA)))
            .when(~present & last.isNull(), f.lit(MISSING))
            .when(~present & same_place(last, f.col("given")), f.lit(MISSING))
            .when(~present, f.lit(MOVED))
            .when(f.col("output") == SKIP, f.lit(None))
            .when(~same_place(record, f.col("given")), f.lit(MOVED))
            .when(is_sink & (record["digest"] != f.col("given.digest")), f.lit(CHANGED))
        )
        return both.select(*OUTPUT, problem.alias("problem"), "given", "last", record.alias("record")).where(
            "problem IS NOT NULL"
        )

    def runs_again(self) -> "Column":
        """Whether the transform can run again on the source record of each row."""
        from pyspark.sql import functions as f

        return f.lit(self.recomputes) & (f.col("source_offset") >= self.offset_of("recompute_start"))

    def unnamed_sources(self) -> "DataFrame":
        """The visible source records that no map names, where the transform cannot run again."""
        records = self.frames.source_records().where(~self.runs_again())
        return records.join(self.named().select(*ORIGIN).distinct(), ORIGIN, "left_anti").select(*ORIGIN)

    def doubles(self) -> "DataFrame":
        """The visible records after the first one of the same output."""
        repeated = self.written().where("size(records) > 1 AND output >= 0")
        others = repeated.selectExpr(*OUTPUT, "explode(slice(records, 2, size(records))) AS record")
        return others.selectExpr(*(f"record.{name} AS {name}" for name in PLACE), *OUTPUT)

    def invented(self) -> "DataFrame":
        """The visible records of an exclusive sink that no map names."""
        from pyspark.sql import functions as f

        records = self.visible()
        for (topic, partition), last in self.scope.expired.items():
            gone = (f.col("topic") == topic) & (f.col("sink_partition") == partition) & (f.col("sink_offset") <= last)
            records = records.where(~gone)
        return records.join(self.frames.maps().select(*PLACE), PLACE, "left_anti").select(*PLACE)


def returned_rows(pipeline: Pipeline, records: "DataFrame", ranges: Sequence[OffsetRange] = ()) -> "DataFrame":
    """What the transform returns for these records. A batch function returns all columns as a DataFrame; those that it
    does not declare would say that it does."""
    result = apply_transform(pipeline, records, ranges)
    columns = ArrowFunction.of(pipeline).result_columns if pipeline.takes_batches else None
    if columns is not None:
        result = result.select(*(name for name in result.columns if name in {*columns, "key", "value", "origin"}))
    return worker_rows(result)


def columns_are_known(pipeline: Pipeline) -> bool:
    """Whether it is known if the transform numbers its outputs itself."""
    return not pipeline.takes_batches or ArrowFunction.of(pipeline).result_columns is not None


def same_place(one: "Column", other: "Column") -> "Column":
    """Whether two outputs are in the same partition of the same topic. A skip is in none."""
    return (one["topic"] == other["topic"]) & (one["sink_partition"] == other["sink_partition"])


def expecting_task(scope: ProofScope, names: Names, default_sink: str) -> Task:
    """Turns the rows of the transform into outputs: each with its number, its place and its digest."""
    dead_letters = len(scope.sink_partitions)

    def expect(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        drop_archives()
        numberings: dict[int, Numbering] = {}
        for partition, rows in split_by_partition(batches):
            offsets = rows["o_offset"].to_numpy()
            sequences = numberings.setdefault(partition, Numbering(partition)).number(rows, offsets)
            skips, rejected = flags(rows, "skip"), np.zeros(rows.num_rows, bool)
            if "error" in rows.schema.names:
                rejected = rows["error"].is_valid().to_numpy(zero_copy_only=False) & ~skips
            topics = topic_numbers(rows, scope, names, default_sink)
            places = np.full(rows.num_rows, partition)
            for number, count in enumerate(scope.sink_partitions):
                chosen = np.flatnonzero(topics == number)
                of_topic = rows.take(pa.array(chosen))
                declared = of_topic["partition"] if "partition" in of_topic.schema.names else None
                places[chosen] = expected_partitions(of_topic["key"], declared, places[chosen], count)
            topics, places = np.where(rejected, dead_letters, topics), np.where(rejected, partition, places)
            columns = [
                np.full(rows.num_rows, partition),
                offsets,
                np.where(skips, SKIP, sequences),
                np.where(skips, -1, topics),
                np.where(skips, -1, places),
                np.where(skips | rejected, 0, rows["digest"].to_numpy()),
            ]
            yield pa.record_batch(
                [pa.array(column).cast(field.type) for column, field in zip(columns, EXPECTED, strict=True)],
                schema=EXPECTED,
            )

    return expect


def topic_numbers(rows: pa.RecordBatch, scope: ProofScope, names: Names, default_sink: str) -> Integers:
    """The number of each row's sink, -1 for one that is not declared."""
    if "topic" not in rows.schema.names:
        return np.zeros(rows.num_rows, np.int64)
    encoded = pc.fill_null(rows["topic"], default_sink).dictionary_encode()
    known = [names.sink(name) for name in encoded.dictionary.to_pylist()]
    numbers = np.array([scope.topics.index(name) if name in scope.topics else -1 for name in known], np.int64)
    chosen: Integers = numbers[encoded.indices.to_numpy()]
    return chosen
