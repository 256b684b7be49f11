"""DataFrames of source, maps and sinks within the window of a proof. Topics go by their number."""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.log.digest import digest_expression
from eos_assets.log.ranges import OffsetRange
from eos_assets.state.fold import home_partition
from eos_assets.transform.business_key import repeated_keys
from eos_assets.transform.source import read_ranges
from eos_assets.verify.observations import OBSERVATIONS
from eos_assets.verify.provenance_frame import decode_maps
from eos_assets.verify.scope import NAMED, RECORD
from eos_assets.verify.window.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The start of a transaction after every window.
NEWER = 1 << 62


@dataclass(frozen=True)
class TopicFrames:
    """The topics of one pipeline within one window."""

    context: PipelineContext
    window: Window

    @property
    def topics(self) -> list[str]:
        """The topics by their number: the sinks, then the dead letters."""
        return self.window.written_topics

    @property
    def sinks(self) -> list[str]:
        return self.topics[:-1]

    @property
    def sink_partitions(self) -> list[int]:
        """The number of partitions of each sink."""
        return [len(self.window.bounds[topic]) for topic in self.sinks]

    def source(self) -> "DataFrame":
        """The retained source records, as Spark's reader returns them."""
        return self._read(self.context.pipeline.source.name, self.window.retained)

    def source_records(self) -> "DataFrame":
        """The offsets of the retained source records."""
        return self.source().selectExpr(
            "`partition` AS source_partition", "`offset` AS source_offset", f"{RECORD} AS tag"
        )

    def maps(self) -> "DataFrame":
        """One row per output or skip. A row is `replaced` if a later repair names the same output."""
        topic = self.context.names.provenance
        messages = self._read(topic, self.window.ranges(topic))
        rows = decode_maps(messages, topic, self.topics).selectExpr("*", f"{NAMED} AS tag")
        return self.mark_repairs(rows)

    def mark_repairs(self, maps: "DataFrame") -> "DataFrame":
        """Mark what repairs replace. One that was committed after the ledger was read belongs to the next proof."""
        from pyspark.sql import functions as f

        known = [f.lit(number) for p, w in self.window.partitions.items() for number in (p, len(w.repairs))]
        if not known:
            return maps.withColumn("replaced", f.lit(0))
        newer = -f.col("start") > f.create_map(*known)[f.col("source_partition")]
        maps = maps.withColumn("start", f.when(newer, f.lit(NEWER)).otherwise(f.col("start")))
        if not any(w.repairs for w in self.window.partitions.values()):
            return maps.withColumn("replaced", f.lit(0))
        output = ["source_partition", "source_offset", "sequence", "skips"]
        maps = maps.withColumn("skips", f.col("sink_offset") < 0)
        repaired = maps.where("start < 0").groupBy(*output).agg(f.max("map_offset").alias("repaired_at"))
        marked = maps.join(f.broadcast(repaired), output, "left")
        replaced = f.coalesce(f.col("map_offset") < f.col("repaired_at"), f.lit(False))
        return marked.withColumn("replaced", replaced.cast("int")).drop("skips", "repaired_at")

    def sink_records(self, number: int, isolation: str) -> "DataFrame":
        """The visible records of one sink, or of the dead letters."""
        topic = self.topics[number]
        options = {"kafka.isolation.level": isolation}
        return self._read(topic, self.window.ranges(topic, isolation), **options).selectExpr(
            f"{number} AS topic",
            "`partition` AS sink_partition",
            "`offset` AS sink_offset",
            f"{RECORD} AS tag",
            "key",
            # A record without headers has the same digest either way.
            f"{digest_expression(with_headers=True)} AS digest",
        )

    def set_aside(self) -> "DataFrame":
        """The origins that have nothing but dead letters."""
        from pyspark.sql import functions as f

        is_dead_letter = f.col("topic") == len(self.sinks)
        origins = self.maps().groupBy("source_partition", "source_offset")
        return origins.agg(f.bool_and(is_dead_letter).alias("aside")).where("aside")

    def misplaced(self) -> "DataFrame":
        """Observations of source records that are in another partition than that of their key, where state needs it."""
        from pyspark.sql import functions as f

        topic = self.context.pipeline.source.name
        home = home_partition(len(self.context.kafka.partitions(topic)))
        rows = self.source().select("partition", "offset", home("key").alias("home")).where("home != partition")
        place = f.concat(f.lit(f"topic={topic}, partition="), "partition", f.lit(", offset="), "offset")
        text = f.concat(place, f.lit(", expected="), "home")
        kind, one = f.lit("routed_correctly"), f.lit(1)
        return cast_columns(rows.select(kind.alias("kind"), text.alias("text"), one.alias("n")), OBSERVATIONS.names)

    def repeated_keys(self) -> "DataFrame":
        """Observations of business keys that the source holds more than once."""
        rows = repeated_keys(self.source(), self.context.pipeline).selectExpr(
            "'source_is_unique' AS kind", "text", "1 AS n"
        )
        return cast_columns(rows, OBSERVATIONS.names)

    def _read(self, topic: str, ranges: list[OffsetRange], **options: str) -> "DataFrame":
        return read_ranges(self.context.spark, self.context.kafka, topic, ranges, **options)


def cast_columns(frame: "DataFrame", columns: list[str]) -> "DataFrame":
    """These columns of a frame, null where it has none, in the types that rows of all sources have."""
    types = {"key": "binary", "kind": "string", "text": "string"}
    integers = ("topic", "sink_partition", "source_partition", "tag", "vanished", "replaced")
    types |= dict.fromkeys(integers, "int")
    present = set(frame.columns)
    return frame.selectExpr(
        *(f"CAST({f'`{c}`' if c in present else 'NULL'} AS {types.get(c, 'long')}) AS `{c}`" for c in columns)
    )


def union(frames: list["DataFrame"]) -> "DataFrame":
    return functools.reduce(lambda one, other: one.unionByName(other), frames)
