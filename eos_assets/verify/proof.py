"""What a check of one's own works with: the committed records of a pipeline, tied to their origins."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.declare.check import Finding
from eos_assets.transform.source import read_ranges
from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.topic_frames import TopicFrames, union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD_COLUMNS = ("topic", "partition", "offset", "key", "value", "headers", "timestamp")


@dataclass(frozen=True)
class Proof:
    """The records of one pipeline that were committed up to the last transaction, as DataFrames.

    Source and output records have the columns topic, partition, offset, key, value, headers and timestamp, with key
    and value as bytes.
    """

    frames: TopicFrames

    @property
    def complete(self) -> bool:
        """Whether everything is retained that the pipeline has written since its start."""
        return not self.frames.window.unprovable

    def source(self) -> "DataFrame":
        """The source records."""
        return self.frames.source().select(*RECORD_COLUMNS)

    def outputs(self) -> "DataFrame":
        """The records of all sinks."""
        return union([self._read(topic) for topic in self.frames.sinks])

    def dead_letters(self) -> "DataFrame":
        """The records of the dead-letter topic."""
        return self._read(self.frames.topics[-1])

    def deliveries(self) -> "DataFrame":
        """One row per output: its source record as the struct `source`, the output itself as the struct `output`, and
        its `sequence` among the outputs of that source record. The provenance map ties the two, so nothing that the
        transform computed is trusted. A side that no longer exists is null."""
        from pyspark.sql import functions as f

        record = f.struct(*RECORD_COLUMNS)
        ends = [f.lit(number) for p, w in self.frames.window.partitions.items() for number in (p, w.end)]
        number_of = [f.lit(entry) for number, topic in enumerate(self.frames.sinks) for entry in (topic, number)]
        if not ends:  # no run has written yet
            return self.source().select(
                record.alias("source"), record.alias("output"), f.lit(0).cast("bigint").alias("sequence")
            )
        named = self.frames.maps().where(
            (f.col("start") < f.create_map(*ends)[f.col("source_partition")])
            & (f.col("replaced") == 0)
            & f.col("topic").between(0, len(self.frames.sinks) - 1)
            & (f.col("sink_offset") >= 0)
        )
        source = self.source().select(
            f.col("partition").alias("source_partition"), f.col("offset").alias("source_offset"), record.alias("source")
        )
        output = self.outputs().select(
            f.create_map(*number_of)[f.col("topic")].alias("topic"),
            f.col("partition").alias("sink_partition"),
            f.col("offset").alias("sink_offset"),
            record.alias("output"),
        )
        joined = named.join(source, ["source_partition", "source_offset"], "left")
        return joined.join(output, ["topic", "sink_partition", "sink_offset"], "left").select(
            "source", "output", "sequence"
        )

    def finding(self, wrong: "DataFrame", holds: str, broken: str) -> Finding:
        """The finding of a check: it holds if no row is wrong. The first wrong rows are its counter-examples.

        Args:
            wrong: the rows that violate the rule.
            holds: the detail of a finding that holds.
            broken: what the wrong rows are, as in "squares that are too large".
        """
        count = wrong.count()
        if not count:
            return Finding(holds=True, detail=holds)
        examples = (describe(row.asDict(recursive=True)) for row in wrong.limit(SHOWN).collect())
        return Finding(holds=False, detail=f"{count:,} {broken}", examples=tuple(examples))

    def not_evaluated(self, reason: str) -> Finding:
        """The finding of a check that cannot be evaluated now."""
        return Finding(holds=True, detail=f"not evaluated: {reason}", evaluated=False)

    def _read(self, topic: str) -> "DataFrame":
        context, ranges = self.frames.context, self.frames.window.ranges(topic)
        return read_ranges(context.spark, context.kafka, topic, ranges).select(*RECORD_COLUMNS)


def describe(columns: dict[str, object]) -> str:
    """A row in words: its columns, with bytes as text and records by their place."""
    return ", ".join(f"{name}={describe_value(value)}" for name, value in columns.items())


def describe_value(value: object) -> str:
    if isinstance(value, dict) and {"topic", "partition", "offset"} <= set(value):
        return f"{value['topic']}/{value['partition']}/{value['offset']}"
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    return str(value)
