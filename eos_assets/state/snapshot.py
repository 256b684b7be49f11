"""A durable copy of the state: a Delta table with the ledger position and generation that each row belongs to.

It shortens a load to the snapshot and the changelog's tail. The changelog alone is the truth: a snapshot that is lost,
too old or of another generation is left aside, and everything is replayed.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.declare.pipeline import TOMBSTONES_MS, Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.log.ledger import ChangelogOffsets, Genesis, LedgerEntry
from eos_assets.state.changelog import Store, stores
from eos_assets.transform.spark_errors import brief

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "partition int, store int, key binary, value binary, position long, changelog_offset long, generation string, "
    "taken_ms long"
)
#: A deletion behind an older snapshot may have been compacted away with its tombstone; clocks may differ by a day.
USABLE_MS = TOMBSTONES_MS - 24 * 3600 * 1000


@dataclass(frozen=True)
class Part:
    """What the table holds of one store of one source partition."""

    partition: int
    store: int
    position: int
    changelog_offset: int
    generation: str
    taken_ms: int


class Snapshot:
    """The table of one pipeline, below one folder of the lake."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: "SparkSession",
        connection: Connection,
        lake: str,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.connection = connection
        self.path = f"{lake.rstrip('/')}/{pipeline.name}/state"
        self.say = say
        self.damaged = False

    @functools.cached_property
    def generation(self) -> str:
        """The id of the ledger: a new generation of a pipeline has a new one."""
        ledger = self.pipeline.names().ledger
        return self.connection.topic_ids([ledger])[ledger]

    def read(self) -> "DataFrame | None":
        from pyspark.errors import AnalysisException

        try:
            frame = self.spark.read.format("delta").load(self.path)
            return frame if frame.columns else None
        except AnalysisException:
            return None

    @functools.cached_property
    def parts(self) -> list[Part]:
        columns = ["partition", "store", "position", "changelog_offset", "generation", "taken_ms"]
        try:
            frame = self.read()
            rows = frame.select(*columns).distinct().collect() if frame is not None else []
        except Exception as failure:
            self.leave_aside(failure)
            return []
        return [Part(**row.asDict()) for row in rows]

    def leave_aside(self, failure: Exception) -> None:
        """A table that cannot be read is one that is lost: the changelog has it all."""
        self.damaged = True
        self.say(f"{self.path} cannot be read, so the changelog is replayed instead: {brief(failure)}")

    def fitting(self) -> list[Part]:
        """The parts of this generation that are young enough. The others are said, and not used."""
        fit = [part for part in self.parts if part.generation == self.generation]
        if len(fit) < len(self.parts):
            self.say(f"{self.path} is a snapshot of another generation: refused, the changelog is replayed instead.")
        oldest = time.time() * 1000 - USABLE_MS
        young = [part for part in fit if part.taken_ms >= oldest]
        if len(young) < len(fit):
            self.say(f"{self.path} is too old: deletions since then may be forgotten. The changelog is replayed.")
        return young

    def usable(
        self, tails: dict[int, Genesis | LedgerEntry | None], marks: dict[int, ChangelogOffsets]
    ) -> dict[tuple[int, int], int]:
        """Source partition and store → the changelog offset up to which the snapshot holds its state."""
        topics = [store.topic for store in stores(self.pipeline)]
        return {
            (part.partition, part.store): part.changelog_offset
            for part in self.fitting()
            if part.partition in tails and part.changelog_offset <= marks[part.partition][topics[part.store]]
        }

    def rows(self, store: Store, partitions: list[int]) -> "DataFrame":
        """What the snapshot holds, older than anything in the changelog's tail: partition, offset, key, value."""
        from pyspark.sql import functions as f

        frame = self.read()
        assert frame is not None
        chosen = frame.where((f.col("store") == store.number) & f.col("partition").isin(partitions))
        return chosen.select("partition", f.lit(-1).cast("long").alias("offset"), "key", "value")

    def holds(self, partition: int, entry: LedgerEntry) -> bool:
        here = [part for part in self.fitting() if part.partition == partition]
        return bool(here) and all(part.position == entry.next for part in here)

    def write(self, rows: "DataFrame", partitions: list[int], version: int, *, fresh: bool) -> None:
        writer = rows.write.format("delta").mode("overwrite").partitionBy("partition")
        if not fresh:
            writer = writer.option("replaceWhere", f"partition in ({', '.join(map(str, partitions))})")
        if not self.damaged:  # there the same version may have been written before, and is written again
            application = f"{self.pipeline.name}/state/{self.generation}"
            writer = writer.option("txnAppId", application).option("txnVersion", str(version))
        try:
            writer.save(self.path)
        except Exception as failure:
            if not self.damaged:
                raise
            raise EosError(
                f"{self.path} is damaged and cannot be written anew: {brief(failure)}",
                "Remove the folder: the changelog holds all that it held.",
            ) from failure
        self.damaged = False
