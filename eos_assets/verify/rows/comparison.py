"""Compare every row of a window: the proof that shows which records violate an invariant."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from eos_assets.transform.arrow_batches import arrow_batch_limit
from eos_assets.verify.observations import OBSERVATIONS, Observations
from eos_assets.verify.recomputation import Recomputation
from eos_assets.verify.rows.sink_checker import SinkChecker
from eos_assets.verify.rows.source_checker import SourceChecker
from eos_assets.verify.rows.summary import summarize
from eos_assets.verify.scope import ProofScope
from eos_assets.verify.topic_frames import TopicFrames, cast_columns, union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class RowComparison:
    """One comparison in one Spark job: each topic is read, sorted and checked, and the transform is run again."""

    recomputation: Recomputation
    scope: ProofScope
    isolation: str

    @property
    def frames(self) -> TopicFrames:
        return self.recomputation.frames

    def observe(self) -> Observations:
        """Run the checkers and the transform, and add up what they observe."""
        from pyspark.sql.pandas.types import from_arrow_schema

        context, window = self.recomputation.context, self.recomputation.window
        schema = from_arrow_schema(OBSERVATIONS)
        observed = [
            self.by_sink().mapInArrow(sink_task(self.scope), schema),
            self.by_source().mapInArrow(source_task(self.scope), schema),
        ]
        if context.pipeline.deterministic and window.recomputable:
            observed.append(self.recomputation.content())
        if context.pipeline.deterministic and self.recomputation.replayed_again:
            observed.append(self.recomputation.replayed_content())
        if window.retained and context.pipeline.unique:
            observed.append(self.frames.repeated_keys())
        if self.recomputation.state and window.retained and context.pipeline.on_error == "stop":
            observed.append(self.frames.misplaced())
        with arrow_batch_limit(context.spark, fast=False):
            return summarize(union(observed), by_origin=context.exactly_once)

    def by_sink(self) -> "DataFrame":
        """Every visible record of the sinks and dead letters, and every map row, in the order of the sink."""
        columns = ["topic", "sink_partition", "sink_offset", "tag", "key", "digest"]
        columns += ["source_partition", "start", "source_offset", "sequence", "vanished", "replaced"]
        maps = self.frames.maps().where("sink_offset >= 0 and topic >= 0")
        if self.frames.window.source_is_compacted:
            maps = self.mark_vanished(maps)
        sinks = [self.frames.sink_records(number, self.isolation) for number in range(len(self.frames.topics))]
        rows = union([cast_columns(frame, columns) for frame in (*sinks, maps)])
        place = ["topic", "sink_partition"]
        return rows.repartition(*place).sortWithinPartitions(*place, "sink_offset", "tag")

    def mark_vanished(self, maps: "DataFrame") -> "DataFrame":
        """Map rows of a compacted source, with a 1 where compaction has removed their source record."""
        from pyspark.sql import functions as f

        origin = ["source_partition", "source_offset"]
        retained = self.frames.source_records().select(*origin, f.lit(0).alias("retained"))
        return maps.join(retained, origin, "left").withColumn("vanished", f.coalesce("retained", f.lit(1)))

    def by_source(self) -> "DataFrame":
        """Every visible source record, and every map row, in the order of the source."""
        columns = ["source_partition", "source_offset", "tag", "sequence", "start", "sink_offset", "replaced"]
        frames = [self.frames.source_records(), self.frames.maps()]
        if self.recomputation.context.pipeline.drops and self.recomputation.window.recomputable:
            frames.append(self.recomputation.kept_origins())
        rows = union([cast_columns(frame, columns) for frame in frames])
        return rows.repartition("source_partition").sortWithinPartitions(*columns[:4])


def sink_task(scope: ProofScope) -> Task:
    return lambda batches: SinkChecker(scope).check(batches)


def source_task(scope: ProofScope) -> Task:
    return lambda batches: SourceChecker(scope).check(batches)
