"""A durable copy of the state: a Delta table with the ledger position and generation that each row belongs to.

It shortens a load to the snapshot and the changelog's tail. The changelog alone is the truth: a snapshot that is lost,
too old or of another generation is not used, and everything is replayed.
"""

import functools
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.declare.pipeline import TOMBSTONES_MS
from eos_assets.errors import EosError
from eos_assets.log.ledger import ChangelogOffsets, Genesis, LedgerEntry
from eos_assets.state.changelog import Store, stores
from eos_assets.transform.spark_errors import summarize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

COLUMNS = (
    "partition int, store int, key binary, value binary, position long, changelog_offset long, generation string, "
    "taken_ms long"
)
#: A deletion after an older snapshot may have been compacted away with its tombstone; clocks may differ by a day.
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

    def __init__(self, context: PipelineContext, lake: str) -> None:
        self.context = context
        self.path = f"{lake.rstrip('/')}/{context.pipeline.name}/state"
        #: Whether the table could not be read.
        self.damaged = False
        self._parts: list[Part] | None = None
        self._warnings: set[str] = set()

    @functools.cached_property
    def generation(self) -> str:
        """The id of the ledger: a new generation of a pipeline has a new one."""
        ledger = self.context.names.ledger
        return self.context.kafka.topic_ids([ledger])[ledger]

    def read(self) -> "DataFrame | None":
        """The whole table; None if there is none."""
        from pyspark.errors import AnalysisException

        try:
            frame = self.context.spark.read.format("delta").load(self.path)
            return frame if frame.columns else None
        except AnalysisException:
            return None

    @property
    def parts(self) -> list[Part]:
        """What the table holds: read once, and again after a write."""
        if self._parts is None:
            self._parts = self._read_parts()
        return self._parts

    def _read_parts(self) -> list[Part]:
        columns = ["partition", "store", "position", "changelog_offset", "generation", "taken_ms"]
        try:
            frame = self.read()
            rows = frame.select(*columns).distinct().collect() if frame is not None else []
        except Exception as failure:
            self.report_damage(failure)
            return []
        return [Part(**row.asDict()) for row in rows]

    def report_damage(self, failure: Exception) -> None:
        """Treat a table that cannot be read as lost: the changelog holds everything."""
        self.damaged = True
        self._warn(f"{self.path} cannot be read, so the changelog is replayed instead: {summarize(failure)}")

    def _warn(self, message: str) -> None:
        """Log a warning once, although each load of the state examines the table."""
        if message not in self._warnings:
            self._warnings.add(message)
            logger.warning(message, extra={"pipeline": self.context.pipeline.name})

    def usable_parts(self) -> list[Part]:
        """The parts of this generation that are young enough. What is not used is logged."""
        own = [part for part in self.parts if part.generation == self.generation]
        if len(own) < len(self.parts):
            self._warn(f"{self.path} is a snapshot of another generation: refused, the changelog is replayed instead.")
        oldest = time.time() * 1000 - USABLE_MS
        young = [part for part in own if part.taken_ms >= oldest]
        if len(young) < len(own):
            self._warn(f"{self.path} is too old: it may hold keys that were deleted since. The changelog is replayed.")
        return young

    def usable_offsets(
        self, tails: dict[int, Genesis | LedgerEntry | None], changelog_offsets: dict[int, ChangelogOffsets]
    ) -> dict[tuple[int, int], int]:
        """Source partition and store → the changelog offset up to which the snapshot holds its state."""
        topics = [store.topic for store in stores(self.context.pipeline)]
        return {
            (part.partition, part.store): part.changelog_offset
            for part in self.usable_parts()
            if part.partition in tails
            and part.changelog_offset <= changelog_offsets[part.partition][topics[part.store]]
        }

    def rows(self, store: Store, partitions: list[int]) -> "DataFrame":
        """The rows of a store, with an offset below any in the changelog: partition, offset, key, value."""
        from pyspark.sql import functions as f

        frame = self.read()
        assert frame is not None
        chosen = frame.where((f.col("store") == store.number) & f.col("partition").isin(partitions))
        return chosen.select("partition", f.lit(-1).cast("long").alias("offset"), "key", "value")

    def holds(self, partition: int, entry: LedgerEntry) -> bool:
        """Whether the snapshot of a partition belongs to this ledger entry."""
        parts = [part for part in self.usable_parts() if part.partition == partition]
        return bool(parts) and all(part.position == entry.next for part in parts)

    def write(self, rows: "DataFrame", partitions: list[int], version: int, *, whole_table: bool) -> None:
        """Replace these partitions, or the whole table, in one Delta commit. Delta skips a repeated version."""
        writer = rows.write.format("delta").mode("overwrite").partitionBy("partition")
        if not whole_table:
            writer = writer.option("replaceWhere", f"partition in ({', '.join(map(str, partitions))})")
        if not self.damaged:  # a damaged table may hold this version, and is written again
            application = f"{self.context.pipeline.name}/state/{self.generation}"
            writer = writer.option("txnAppId", application).option("txnVersion", str(version))
        try:
            writer.save(self.path)
        except Exception as failure:
            if not self.damaged:
                raise
            raise EosError(
                f"{self.path} is damaged and cannot be overwritten: {summarize(failure)}",
                "Remove the folder: the changelog holds all that it held.",
            ) from failure
        self.damaged, self._parts = False, None
