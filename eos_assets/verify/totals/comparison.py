"""Compare totals of a window: sinks, maps and source are each read once, in order, without a sort, shuffle or join.

If a total differs, or an invariant cannot be decided from totals, the result is None. Then every row is compared
(`rows`), which shows the records in question. docs/decisions/0013 gives the reasons.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eos_assets.errors import Code
from eos_assets.kafka.range_reader import PartitionRange
from eos_assets.run.partition_alignment import narrow_path
from eos_assets.transform.arrow_batches import LARGE_BYTES, arrow_batch_limit
from eos_assets.transform.arrow_function import ArrowFunction
from eos_assets.transform.business_key import repeated_keys
from eos_assets.transform.result_schema import apply_transform, worker_rows
from eos_assets.transform.source import read_records
from eos_assets.transform.spark_errors import classify
from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.observations import Observation, Observations
from eos_assets.verify.recomputation import Recomputation, leave_out
from eos_assets.verify.scope import ProofScope
from eos_assets.verify.topic_frames import union
from eos_assets.verify.totals.map_reader import MapClaims, MapReader
from eos_assets.verify.totals.sink_pass import add_by_place, add_by_transaction
from eos_assets.verify.totals.topic_pass import (
    SinkPartitionPass,
    SourcePartitionPass,
    TopicPass,
    run_here,
    topic_task,
)
from eos_assets.verify.totals.total import (
    PASS_RESULTS,
    ObservedTotals,
    PassResults,
    Total,
    UndecidedError,
    add_results,
    of_aggregates,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


ORIGIN = ("`o_offset`", "`o_partition`")
#: Up to this number of offsets the driver reads the sinks itself: a Spark task would take longer.
FEW_RECORDS = 10_000


@dataclass(frozen=True)
class TotalsPasses:
    """The passes of one proof: along the sinks and their maps, and over the source."""

    recomputation: Recomputation
    scope: ProofScope
    claims: MapClaims
    #: What Spark adds up on the way.
    observed: ObservedTotals = field(default_factory=ObservedTotals)

    def run(self) -> PassResults:
        """Run all passes in Arrow batches whose size in bytes Spark does not check, unless outputs are large."""
        spark, entries = self.recomputation.context.spark, self.recomputation.window.entries
        if not any(entry.bytes_out > LARGE_BYTES * max(1, entry.records_out) for entry in entries):
            try:
                with arrow_batch_limit(spark, fast=True):
                    return self.run_job()
            except Exception as failure:
                if classify(failure).code is not Code.BATCH_TOO_LARGE:
                    raise
        with arrow_batch_limit(spark, fast=False):
            return self.run_job()

    def run_job(self) -> PassResults:
        """Run all passes in one Spark job, except those over partitions with few new records."""
        self.observed.clear()
        results, config = PassResults(list), self.recomputation.context.kafka.config()
        frames = self.source_frames()
        passes: list[TopicPass] = [*self.sink_passes(), *self.source_passes()]
        if sum(one.range.end - one.range.start for one in passes) <= FEW_RECORDS:
            add_results(results, run_here(self.scope, config, passes))
        else:
            frames = [self.frame_of(passes, config), *frames]  # the longest tasks first
        if frames:
            add_results(results, [union(frames).toArrow()])
        for kind, values in self.observed.values().items():
            results[kind].append(values)
        return results

    def frame_of(self, passes: "Sequence[TopicPass]", config: dict[str, Any]) -> "DataFrame":
        """One task for each pass."""
        from pyspark.sql.pandas.types import from_arrow_schema

        indexes = self.recomputation.context.spark.range(0, len(passes), 1, len(passes))
        return indexes.mapInArrow(topic_task(self.scope, config, passes), from_arrow_schema(PASS_RESULTS))

    def sink_passes(self) -> list[SinkPartitionPass]:
        """One pass along each partition with new records, of the sinks and of the dead letters."""
        return [
            SinkPartitionPass(
                number,
                PartitionRange(topic, r.partition, r.start, r.end),
                self.claims.messages.get((number, r.partition), []),
            )
            for number, topic in enumerate(self.scope.topics)
            for r in self.recomputation.window.ranges(topic)
            if r.size
        ]

    def source_passes(self) -> list[SourcePartitionPass]:
        """One pass over each partition of the source of an Arrow pipeline."""
        context, window = self.recomputation.context, self.recomputation.window
        pipeline, names = context.pipeline, context.names
        if not pipeline.takes_batches:
            return []
        function = ArrowFunction.of(pipeline) if self.runs_again() else None
        return [
            SourcePartitionPass(
                PartitionRange(pipeline.source.name, r.partition, r.start, r.end),
                function,
                frozenset(offset for partition, offset in self.claims.set_aside if partition == r.partition),
                {sink.name: self.scope.topics.index(names.sink(sink.name)) for sink in pipeline.sinks},
            )
            for r in window.retained
        ]

    def source_frames(self) -> list["DataFrame"]:
        """The passes of Spark over the source: repeated and misplaced keys and, of a pipeline of DataFrames, visible
        records and recomputed outputs."""
        pipeline, window = self.recomputation.context.pipeline, self.recomputation.window
        frames: list[DataFrame] = []
        if not pipeline.takes_batches and self.runs_again():
            frames.append(self.recompute())
        if not pipeline.takes_batches and window.retained and "visible" not in self.observed:
            frames.append(self.visible())
        if window.retained and pipeline.unique:
            frames.append(count_rows("repeated", repeated_keys(self.recomputation.frames.source(), pipeline)))
        if self.recomputation.state and window.retained and pipeline.on_error == "stop":
            frames.append(count_rows("misplaced", self.recomputation.frames.misplaced()))
        return frames

    def runs_again(self) -> bool:
        """Whether the transform runs again."""
        pipeline, window = self.recomputation.context.pipeline, self.recomputation.window
        if pipeline.deterministic and window.recomputable:
            return True
        if pipeline.drops and window.retained:
            raise UndecidedError("what a transform drops is not known without running it again")
        return False

    def visible(self) -> "DataFrame":
        """Add up the visible source records."""
        from pyspark.sql.pandas.types import from_arrow_schema

        source = self.recomputation.frames.source().selectExpr("`partition` AS o_partition", "`offset` AS o_offset")
        if not self.recomputation.context.pipeline.drops:
            return self.observed.consume(source, "visible", ORIGIN)
        scope = self.scope
        return source.mapInArrow(lambda rows: add_by_transaction(scope, rows), from_arrow_schema(PASS_RESULTS))

    def recompute(self) -> "DataFrame":
        """Add up the outputs of the transform, run again in other ranges. On the way the source records are counted,
        where that reads each of them once."""
        context, window, cuts = self.recomputation.context, self.recomputation.window, self.recomputation.cuts
        if self.recomputation.state is not None:
            return self.content(self.recomputation.rows(**cuts))
        source = context.pipeline.source.name
        records = read_records(context.spark, context.kafka, source, window.recomputable, **cuts)
        if not context.pipeline.drops and window.recomputable == window.retained:
            records = self.observed.observe(records, "visible", ("`origin`.`offset`", "`origin`.`partition`"))
        if self.claims.set_aside:
            schema = "source_partition int, source_offset long"
            records = leave_out(context.spark.createDataFrame(self.claims.set_aside, schema), records)
        frame = self.content(worker_rows(apply_transform(context.pipeline, records)))
        if narrow_path(frame, context.pipeline) is not None:
            return frame
        if self.claims.set_aside:
            raise UndecidedError("a shuffle beside records that were set aside")
        self.observed.clear()
        return self.content(self.recomputation.rows(**cuts))

    def content(self, rows: "DataFrame") -> "DataFrame":
        """Add up outputs by content, origin and topic, and dead letters by origin; all rows by origin where some
        records may have none."""
        from pyspark.sql.pandas.types import from_arrow_schema

        declared = self.scope.declares_partitions
        flat = rows.selectExpr(*self.content_columns(set(rows.columns)), *(["key", "partition"] if declared else []))
        if declared:
            scope = self.scope
            return flat.mapInArrow(lambda rows: add_by_place(scope, rows), from_arrow_schema(PASS_RESULTS))
        if self.recomputation.context.pipeline.drops:
            flat = self.observed.observe(flat, "kept", ORIGIN)
        return self.observed.consume(flat.where("compared"), "recomputed", ("`digest`", *ORIGIN, "`topic`"))

    def content_columns(self, present: set[str]) -> list[str]:
        """Digest, origin and topic number of each row as SQL, and whether it is compared with the sinks."""
        sinks, dead_letters = self.scope.topics[:-1], len(self.scope.sink_partitions)
        topic, digest, compared = "0", "`digest`", ["true"]
        if "topic" in present:
            numbers = " ".join(f"WHEN '{name}' THEN {number}" for number, name in enumerate(sinks))
            topic = f"CASE coalesce(`topic`, '{sinks[0]}') {numbers} ELSE -1 END"
        if "skip" in present:
            compared.append("NOT coalesce(`skip`, false)")
        if "error" in present and not self.scope.compares_dead_letters:
            compared.append("`error` IS NULL")
        elif "error" in present:
            topic = f"CASE WHEN `error` IS NOT NULL THEN {dead_letters} ELSE {topic} END"
            digest = "CASE WHEN `error` IS NOT NULL THEN 0L ELSE `digest` END"
        return [f"{digest} AS digest", *ORIGIN, f"{topic} AS topic", f"{' AND '.join(compared)} AS compared"]


def count_rows(kind: str, rows: "DataFrame") -> "DataFrame":
    """One result of a pass: the number of rows."""
    return rows.selectExpr(f"'{kind}' AS kind", "to_json(array(CAST(count(*) AS bigint))) AS text")


@dataclass(frozen=True)
class TotalsComparison:
    """One comparison, of committed records in exactly-once mode."""

    recomputation: Recomputation
    scope: ProofScope

    def observe(self) -> Observations | None:
        """The figures of a window in which every total is equal, or None if every row has to be compared."""
        context, window = self.recomputation.context, self.recomputation.window
        isolates = context.pipeline.on_error == "isolate" and self.recomputation.state is None
        try:
            claims = MapReader(context.kafka, context.names.provenance, window, self.scope, isolates=isolates).read()
            return self.compare(claims, TotalsPasses(self.recomputation, self.scope, claims).run())
        except UndecidedError:
            return None

    def compare(self, claims: MapClaims, results: PassResults) -> Observations:
        """The figures of the window; `UndecidedError` if any total differs."""
        pipeline = self.recomputation.context.pipeline
        violation = next((row[0] for row in results["sink"] if row[0]), "")
        named = sum(row[2] for row in results["sink"])
        if violation or named != claims.named:
            raise UndecidedError(violation or "rows of the maps without a visible record")
        if any(n for n, *_ in results["misplaced"]):
            raise UndecidedError("source records in another partition than that of their key")
        recomputed = add(of_aggregates(*row) for row in results["recomputed"])
        if pipeline.deterministic and recomputed != add(Total(*row[3:5]) for row in results["sink"]):
            raise UndecidedError("the transform, run again, gives other outputs")
        visible = add(of_aggregates(*row) for row in results["visible"])
        observations = Observations(Observation)
        if pipeline.drops:
            observations["dropped"].examples = self.dropped(claims, results)
        elif visible != claims.origins:
            raise UndecidedError("the maps name other source records than the visible ones")
        observations["source_records"].n = visible.n
        observations["sink_records"].n = sum(row[1] for row in results["sink"])
        observations["outputs_with_origin"].n = named
        observations["newer"].n = claims.newer
        observations["sum"].examples = [json.dumps(row) for row in results["sum"]]
        observations["source_is_unique"] = self.repeated(sum(n for n, *_ in results["repeated"]))
        return observations

    def dropped(self, claims: MapClaims, results: PassResults) -> list[str]:
        """The number of records of each transaction that the transform drops: the maps must name all others."""
        if any(w.recomputable.start > w.source.start for w in self.recomputation.window.partitions.values()):
            raise UndecidedError("what other code dropped is not known")
        if add(of_aggregates(*row) for row in results["kept"]) != claims.rows or claims.set_aside:
            raise UndecidedError("the maps name other source records than the transform keeps")
        counts: dict[tuple[int, int], int] = defaultdict(int)
        for partition, start, n in results["transaction"]:
            counts[partition, start] += n
        kept = claims.per_transaction
        return [json.dumps([*transaction, n - kept.get(transaction, 0)]) for transaction, n in counts.items()]

    def repeated(self, n: int) -> Observation:
        """Repeated business keys, with examples only if there are any."""
        if not n:
            return Observation()
        keys = repeated_keys(self.recomputation.frames.source(), self.recomputation.context.pipeline)
        return Observation(n, [row.text for row in keys.limit(SHOWN).collect()])


def add(totals: Iterable[Total]) -> Total:
    return sum(totals, Total())
