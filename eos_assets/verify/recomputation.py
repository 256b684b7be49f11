"""Run the transform again on the source of a window, in other ranges than the run's."""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eos_assets.context import PipelineContext
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.run.partition_alignment import narrow_path
from eos_assets.transform.arrow_function import ArrowFunction
from eos_assets.transform.result_schema import apply_transform, worker_rows
from eos_assets.transform.source import ORDINAL, read_records
from eos_assets.verify.observations import OBSERVATIONS
from eos_assets.verify.scope import KEPT, expected_partitions
from eos_assets.verify.state_checker import StateChecker
from eos_assets.verify.topic_frames import TopicFrames, union
from eos_assets.verify.window.window import Window
from eos_assets.worker import prepare_worker

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class Recomputation:
    """What the pipeline returns again for the source records of a window, the state of a stateful one included."""

    frames: TopicFrames
    state: StateChecker | None = None

    @property
    def context(self) -> PipelineContext:
        return self.frames.context

    @property
    def window(self) -> Window:
        return self.frames.window

    @functools.cached_property
    def declares_partitions(self) -> bool:
        """Whether the transform may choose the partition of an output."""
        pipeline = self.context.pipeline
        if pipeline.takes_batches:
            columns = ArrowFunction.of(pipeline).result_columns
            return columns is None or "partition" in columns
        everywhere = [OffsetRange(p, 0, 1) for p in self.window.partitions]
        return "partition" in apply_transform(pipeline, self._records(everywhere)).columns

    @property
    def compares_dead_letters(self) -> bool:
        """Whether running the transform again must give the same dead letters. Not if records are isolated on which it
        raises."""
        pipeline = self.context.pipeline
        repeatable = pipeline.deterministic and pipeline.on_error == "stop"
        return repeatable and self.context.exactly_once and self.state is None

    @property
    def cuts(self) -> dict[str, str]:
        """The reader's option that cuts ranges in other places than the run did."""
        return {"minPartitions": str(2 * len(self.window.recomputable))}

    def rows(self, **options: str) -> "DataFrame":
        """All rows that can be compared, as they travel to a worker."""
        from pyspark.sql import functions as f

        recomputable = self.window.recomputable
        if self.state is None:
            whole = self.transform(recomputable, **options)
            if narrow_path(whole, self.context.pipeline) is not None:
                return whole
            return union([self.transform(half, **options) for half in self.halves()])
        starts = [f.lit(number) for r in recomputable for number in (r.partition, r.start)]
        rows = self.state.fold(self.source_records(self.state.replay.ranges, **options)).outputs
        return rows.where(f.col("o_offset") >= f.create_map(*starts)[f.col("o_partition")])

    def transform(self, ranges: list[OffsetRange], **options: str) -> "DataFrame":
        return worker_rows(apply_transform(self.context.pipeline, self.source_records(ranges, **options)))

    def halves(self) -> tuple[list[OffsetRange], list[OffsetRange]]:
        """All ranges, cut in two where no transaction began. After a shuffle a transform could combine records; here
        these are other records than in the run."""
        first, second = [], []
        for r in self.window.recomputable:
            starts = {entry.start for entry in self.window.partitions[r.partition].entries}
            candidates = range((r.start + r.end) // 2, r.end)
            middle = next((offset for offset in candidates if offset not in starts), r.end)
            first.append(OffsetRange(r.partition, r.start, middle))
            second.append(OffsetRange(r.partition, middle, r.end))
        return first, second

    def source_records(self, ranges: list[OffsetRange], **options: str) -> "DataFrame":
        """The records to run the transform on, without those that were isolated because it raises on them."""
        records = self._records(ranges, **options)
        if replayed := self.window.replayed():  # they are compared with what the code of their replay gives
            records = leave_out(self._origins(replayed), records)
        if self.context.pipeline.on_error == "stop" or self.state:
            return records  # the state checker itself leaves out what was isolated
        return leave_out(self.frames.set_aside(), records)

    @property
    def replayed_again(self) -> list[tuple[int, int]]:
        """The source records whose dead letters today's code has replayed."""
        return self.window.replayed(self.context.pipeline.code_version)

    def replayed_content(self) -> "DataFrame":
        """Observations of the outputs that running the transform again must give for replayed records."""
        from pyspark.sql import functions as f

        replayed = self.replayed_again
        offsets: dict[int, list[int]] = defaultdict(list)
        for partition, offset in replayed:
            offsets[partition].append(offset)
        records = self._records([OffsetRange(p, min(chosen), max(chosen) + 1) for p, chosen in offsets.items()])
        origins = self._origins(replayed)
        chosen = records.join(f.broadcast(origins), same_origin(records, origins), "left_semi")
        return self._observed(worker_rows(apply_transform(self.context.pipeline, chosen)))

    def _origins(self, origins: list[tuple[int, int]]) -> "DataFrame":
        return self.context.spark.createDataFrame(origins, "source_partition int, source_offset long")

    def kept_origins(self) -> "DataFrame":
        """The origins that a transform with `drops=True` keeps."""
        from pyspark.sql import functions as f

        origins = self.rows().selectExpr("o_partition as source_partition", "o_offset as source_offset")
        if self.context.pipeline.on_error == "isolate":
            origins = origins.unionByName(self.frames.set_aside().drop("aside"))
        return origins.withColumn("tag", f.lit(KEPT))

    def content(self) -> "DataFrame":
        """Observations of every output: the topic and partition where it belongs, its digest and its origin. Of a dead
        letter the origin alone."""
        return self._observed(self.rows(**self.cuts))

    def _observed(self, rows: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as f
        from pyspark.sql.pandas.types import from_arrow_schema

        names = self.context.names
        if "skip" in rows.columns:
            rows = rows.where("skip is null or not skip")
        columns = ["topic", "key", "o_partition", "o_offset", "digest", *({"partition"} & set(rows.columns))]
        routed = rows.withColumn("topic", topic_column(rows, self.frames.sinks[0], names.sink))
        if "error" in rows.columns and not self.compares_dead_letters:
            routed = routed.where("error is null")
        elif "error" in rows.columns:
            rejected = f.col("error").isNotNull()
            topic = f.when(rejected, f.lit(names.dead_letters)).otherwise(f.col("topic"))
            digest = f.when(rejected, f.lit(0)).otherwise(f.col("digest"))
            routed = routed.withColumns({"topic": topic, "digest": digest})
        partitions = dict(zip(self.frames.sinks, self.frames.sink_partitions, strict=True))
        task = content_task(partitions, names.dead_letters)
        return routed.select(*columns).mapInArrow(task, from_arrow_schema(OBSERVATIONS))

    def _records(self, ranges: list[OffsetRange], **options: str) -> "DataFrame":
        context = self.context
        return read_records(context.spark, context.kafka, context.pipeline.source.name, ranges, **options)


def leave_out(origins: "DataFrame", records: "DataFrame") -> "DataFrame":
    """The records of a source without these origins."""
    from pyspark.sql import functions as f

    rest = records.join(f.broadcast(origins), same_origin(records, origins), "left_anti")
    # The ordinal is counted above the join: Spark moves no filter below it, to where the records still are that raise.
    return rest.withColumn("origin", f.expr(f"struct(`origin`.`partition`, `origin`.`offset`, {ORDINAL} AS ordinal)"))


def same_origin(records: "DataFrame", origins: "DataFrame") -> "Column":
    """The condition of a join of records with origins."""
    return (records["origin.partition"] == origins["source_partition"]) & (
        records["origin.offset"] == origins["source_offset"]
    )


def topic_column(rows: "DataFrame", default: str, name: Callable[[str], str]) -> "Column":
    """The topic of each row, by its name in the delivery mode."""
    from pyspark.sql import functions as f

    if "topic" not in rows.columns:
        return f.lit(default)
    return f.coalesce(f.concat("topic", f.lit(name(""))), f.lit(default))


def content_task(sink_partitions: dict[str, int], dead_letters: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Turns outputs into observations, each as +1 of its content in the partition where it belongs. A dead letter
    belongs to the partition of its origin."""

    def observe(batches: Batches) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            topics = batch["topic"].dictionary_encode()
            for number, topic in enumerate(topics.dictionary.to_pylist()):
                rows = batch.filter(pa.array(topics.indices.to_numpy() == number))
                partition = rows["o_partition"].to_numpy()
                if topic != dead_letters:
                    declared = rows["partition"] if "partition" in rows.schema.names else None
                    partition = expected_partitions(rows["key"], declared, partition, sink_partitions.get(topic, 1))
                yield pa.record_batch(
                    [
                        pa.repeat("content", rows.num_rows),
                        rows["topic"],
                        pa.array(partition.astype(np.int32)),
                        rows["digest"],
                        pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows),
                        pa.nulls(rows.num_rows, pa.int64()),
                        rows["o_partition"],
                        rows["o_offset"],
                    ],
                    schema=OBSERVATIONS,
                )

    return observe
