"""Reads source, sink, dead letters and ledger from the brokers and evaluates every invariant. Trusts nothing else."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.exactly_once import proven
from eos_assets.exactly_once.invariants import (
    SHOWN,
    Finding,
    code_versions,
    ledger_matches_sink,
    ledger_tiles_source,
    no_open_transactions,
    offsets_match_ledger,
)
from eos_assets.exactly_once.modes import Mode
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.exactly_once.source import read_ranges
from eos_assets.exactly_once.tables import ORIGIN, PLACE, Tables
from eos_assets.exactly_once.window import Looker
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets.kafka.routing import partitions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TALLY_SCHEMA = "check string, n long, examples array<string>"


@dataclass
class Verification:
    """What was found: one finding per invariant, and the figures behind them."""

    pipeline: str
    mode: Mode
    findings: list[Finding] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    #: True if it began where the last proof ended, False if it looked at everything.
    incremental: bool = False

    @property
    def holds(self) -> bool:
        return all(finding.holds or finding.severity == "warning" for finding in self.findings)


def verify_pipeline(
    pipeline: Pipeline,
    spark: "SparkSession",
    connection: Connection,
    *,
    mode: Mode = Mode.EXACTLY_ONCE,
    isolation: str = "read_committed",
    full: bool = False,
) -> Verification:
    """Evaluates every invariant on what was written since the last proof or, in full, on all that is retained.

    It writes nothing but the mark from which the next proof goes on, and that only if everything holds.
    """
    return Verifier(pipeline, spark, connection, mode, isolation, full=full).verify()


@dataclass
class Tally:
    """How often something was found, and the first examples."""

    n: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, n: int, examples: list[str]) -> None:
        self.n += n
        self.examples = (self.examples + examples)[:SHOWN]


class Verifier:
    """One look at one pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: "SparkSession",
        connection: Connection,
        mode: Mode,
        isolation: str,
        *,
        full: bool,
    ) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.connection = connection
        self.mode = mode
        self.isolation = isolation
        self.names = pipeline.names(mode)
        self.full = full or isolation != "read_committed"

    def verify(self) -> Verification:
        begun = time.monotonic()
        self.window = Looker(self.pipeline, self.connection, self.mode, full=self.full).look()
        self.tables = Tables(self.pipeline, self.spark, self.connection, self.mode, self.window)
        self.tables.load(self.isolation)
        try:
            self.tallies = self.count()
            findings = [*self.about_the_records(), *self.about_the_ledger(), self.values_recompute()]
        finally:
            self.tables.unpersist()
        findings.append(self.source_is_unique())
        later = {topic: bounds(self.connection, topic) for topic in self.window.bounds}
        timeout = self.pipeline.transaction_timeout_ms / 1000
        findings.append(no_open_transactions(self.window.bounds, later, time.monotonic() - begun, timeout))
        result = Verification(
            self.pipeline.name, self.mode, findings, self.versions(), self.figures(), self.window.incremental
        )
        if result.holds and self.window.closed and not self.tallies["newer"].n and self.committed_and_exact():
            proven.store(self.connection, self.names, self.window.ends)
        return result

    def committed_and_exact(self) -> bool:
        return self.mode is Mode.EXACTLY_ONCE and self.isolation == "read_committed"

    def versions(self) -> list[str]:
        return code_versions(entry for w in self.window.partitions.values() for entry in w.entries)

    def figures(self) -> dict[str, int]:
        names = ("source_records", "sink_records", "outputs_with_origin")
        return {**{name: self.tallies[name].n for name in names}, "no_longer_provable": self.window.unprovable}

    def count(self) -> dict[str, Tally]:
        """Everything that is counted, in one Spark job: a row per violation, and the figures."""
        frames = [
            *self.totals(),
            *self.duplicates(),
            *self.missing(),
            *self.invented(),
            *self.out_of_order(),
            *self.wrong_places(),
            *self.differences(),
            *self.repeated_keys(),
        ]
        union = frames[0]
        for frame in frames[1:]:
            union = union.unionAll(frame)
        tallies: dict[str, Tally] = defaultdict(Tally)
        for row in union.mapInArrow(tally, TALLY_SCHEMA).toLocalIterator():
            tallies[row.check].add(row.n, row.examples)
        return tallies

    def totals(self) -> list["DataFrame"]:
        counted = {
            "source_records": self.tables.source,
            "sink_records": self.tables.sink,
            "outputs_with_origin": self.tables.visible,
            "newer": self.tables.every_map.where("newer"),
        }
        return [
            frame.selectExpr(f"'{name}' as check", "1 as one")
            .groupBy("check")
            .agg({"one": "count"})
            .selectExpr("check", "`count(one)` as n", "cast(null as string) as example")
            for name, frame in counted.items()
        ]

    def duplicates(self) -> list["DataFrame"]:
        from pyspark.sql import functions as f

        visible = self.tables.visible
        at = f.sort_array(f.collect_list(f.concat_ws("/", *PLACE))).alias("at")
        twice = visible.groupBy(*ORIGIN, "sequence").agg(at).where("size(at) > 1")
        outputs = self.tables.map.where("sink_offset >= 0")
        two_origins = outputs.groupBy(*PLACE).agg(f.count("*").alias("origins")).where("origins > 1")
        found = [violations("no_duplicates", twice), violations("no_duplicates", two_origins)]
        if self.window.incremental:  # what was proven before does not come again
            found.append(violations("no_duplicates", visible.where("source_offset < start").select(*PLACE, *ORIGIN)))
        return found

    def missing(self) -> list["DataFrame"]:
        """Source records without an output, a dead letter or a skip; and records that a committed map names, and that
        are not there."""
        unnamed = self.tables.source.join(self.tables.map, ORIGIN, "left_anti")
        if self.pipeline.drops:
            kept = self.tables.origins_again() if self.tables.repeatable else self.tables.source.limit(0)
            unnamed = unnamed.join(kept, ORIGIN, "left_semi")
        gone = self.tables.delivered.where("digest is null").select(*PLACE, *ORIGIN, "sequence")
        return [violations("none_missing", unnamed), violations("none_missing", gone)]

    def invented(self) -> list["DataFrame"]:
        from pyspark.sql import functions as f

        found = []
        if not self.pipeline.shared_sink:
            unnamed = self.tables.delivered.where("digest is not null and source_offset is null")
            found.append(violations("none_invented", unnamed.select(*PLACE)))
        origins = self.tables.map.drop("sequence", "start")
        for partition, w in self.window.partitions.items():
            if w.log_start > w.start:  # what retention took from the source proves nothing
                gone = (f.col("source_partition") == partition) & (f.col("source_offset") < w.log_start)
                origins = origins.where(~gone)
        found.append(violations("none_invented", origins.join(self.tables.source, ORIGIN, "left_anti")))
        return found

    def out_of_order(self) -> list["DataFrame"]:
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        along = Window.partitionBy("source_partition", "topic", "sink_partition").orderBy("sink_offset")
        here = f.struct("source_offset", "sequence")
        falling = self.tables.visible.withColumn("before", f.lag(here).over(along)).where(f.col("before") >= here)
        return [violations("ordered_within_partition", falling.select(*PLACE, *ORIGIN, "before"))]

    @property
    def declares_partitions(self) -> bool:
        return "partition" in self.tables.result_columns

    def wrong_places(self) -> list["DataFrame"]:
        """Keyed records that are not where the key says, and others that are not where their source partition says."""
        from pyspark.sql import functions as f

        if self.declares_partitions:
            return []  # running the transform again tells where they belong
        counts = {topic: len(self.window.bounds[topic]) for topic in self.tables.sinks}
        outputs = self.tables.sink.where(f.col("topic").isin(self.tables.sinks)).drop("digest")
        columns = "topic string, sink_partition int, sink_offset long, expected int"
        found = [violations("routed_correctly", outputs.mapInArrow(misrouted(counts), columns))]
        for topic, count in counts.items():
            expected = f.pmod("source_partition", f.lit(count))
            keyless = self.tables.visible.where((f.col("topic") == topic) & ~f.col("keyed"))
            wrong = keyless.where(f.col("sink_partition") != expected).select(*PLACE, expected.alias("expected"))
            found.append(violations("routed_correctly", wrong))
        return found

    def differences(self) -> list["DataFrame"]:
        """The transform, run again on the source and cut elsewhere, gives the same outputs: a difference of multisets
        both ways, which trusts nothing that the sink wrote about itself."""
        from pyspark.sql import functions as f

        if not self.pipeline.deterministic:
            return []
        actual = self.tables.delivered.where("digest is not null").where(self.tables.repeated())
        actual = actual.where(f.col("topic").isin(self.tables.sinks))
        if self.pipeline.shared_sink:
            actual = actual.where("source_offset is not null")
        place = ["topic", "sink_partition", "digest"]
        wanted = self.tables.again().select(*place, f.lit(1).alias("n"), f.concat_ws("/", *ORIGIN).alias("at"))
        there = actual.select(*place, f.lit(-1).alias("n"), f.concat_ws("/", *PLACE).alias("at"))
        by_place = (
            wanted.unionByName(there)
            .groupBy(*place)
            .agg(
                f.sum("n").alias("n"),
                f.min(f.when(f.col("n") > 0, f.col("at"))).alias("source"),
                f.min(f.when(f.col("n") < 0, f.col("at"))).alias("sink"),
            )
            .where("n != 0")
        )
        zero = f.lit(0)
        by_content = by_place.groupBy("topic", "digest").agg(
            f.sum(f.greatest("n", zero)).alias("lost"),
            f.sum(f.greatest(-f.col("n"), zero)).alias("more"),
            f.min("source").alias("source"),
            f.min("sink").alias("sink"),
        )
        kinds = {
            "lost": ("lost - least(lost, more)", "concat('lost: source record ', source)"),
            "too many": ("more - least(lost, more)", "concat('too many: ', sink)"),
            "moved": ("least(lost, more)", "concat(sink, ' of source record ', source)"),
        }
        return [
            by_content.selectExpr(f"'{kind}' as check", f"{n} as n", f"{example} as example").where("n > 0")
            for kind, (n, example) in kinds.items()
        ]

    def repeated_keys(self) -> list["DataFrame"]:
        from pyspark.sql import functions as f

        if not self.tables.retained:
            return []
        key = f.expr(self.pipeline.unique_by).cast("binary")
        read = read_ranges(self.spark, self.connection, self.pipeline.source.name, self.tables.retained)
        keys = read.select(key.alias("business_key")).where("business_key is not null")
        counted = keys.groupBy(f.xxhash64("business_key").alias("h")).agg(
            f.count("*").alias("records"), f.first("business_key").cast("string").alias("business_key")
        )
        return [violations("source_is_unique", counted.where("records > 1").drop("h"))]

    def about_the_records(self) -> Iterator[Finding]:
        outputs, sources = self.tallies["outputs_with_origin"].n, self.tallies["source_records"].n
        yield self.finding("no_duplicates", f"{outputs:,} outputs, each origin once", "origins visible more than once")
        yield self.finding("none_missing", f"{sources:,} source records accounted for", "records missing")
        yield self.finding("none_invented", "every visible record has a visible origin", "records without an origin")
        yield self.finding("ordered_within_partition", "origins rise with the sink offset", "records out of order")
        name, broken = "routed_correctly", "records in a wrong partition"
        if not self.declares_partitions:
            yield self.finding(name, "every record is in the partition of its key", broken)
        elif self.pipeline.deterministic:
            yield self.finding("moved", "every record is in the partition that the transform declares", broken, name)
        else:
            told = "not evaluated: the transform declares partitions, and is not deterministic"
            yield Finding(name, True, told, evaluated=False)

    def about_the_ledger(self) -> list[Finding]:
        """In the weaker modes the ledger is not atomic with the output, so it proves nothing there."""
        if self.mode is not Mode.EXACTLY_ONCE:
            return []
        windows = self.window.partitions
        positions = {p: w.position for p, w in windows.items() if w.position is not None}
        groups = {p: w.group for p, w in windows.items() if w.group_known}
        return [
            ledger_tiles_source({p: w.rows for p, w in windows.items()}, {p: w.proven for p, w in windows.items()}),
            ledger_matches_sink((entry for w in windows.values() for entry in w.entries), self.sink_sums()),
            offsets_match_ledger(positions, groups),
        ]

    def sink_sums(self) -> dict[tuple[int, int, str, int], tuple[int, int, int, int]]:
        """Count, first, last and digest of each transaction in each sink partition, recomputed from the topics."""
        from pyspark.sql import functions as f

        rows = self.tables.visible.groupBy("source_partition", "start", "topic", "sink_partition").agg(
            f.count("*").alias("n"),
            f.min("sink_offset").alias("low"),
            f.max("sink_offset").alias("high"),
            f.sum(f.col("digest").cast("decimal(38,0)")).alias("sum"),
        )
        return {
            (row.source_partition, row.start, row.topic, row.sink_partition): (
                row.n,
                row.low,
                row.high,
                0 if row.topic == self.names.dead_letters else int(row.sum) % 2**64,
            )
            for row in rows.toLocalIterator()
        }

    def values_recompute(self) -> Finding:
        name = "values_recompute"
        if not self.pipeline.deterministic:
            return Finding(name, True, "not evaluated: the pipeline says that it is not deterministic", evaluated=False)
        lost, more = self.tallies["lost"], self.tallies["too many"]
        other_code = sum(w.repeatable.start - w.source.start for w in self.window.partitions.values())
        note = f"; {other_code:,} offsets were written by other code and are left out" if other_code else ""
        if not lost.n and not more.n:
            if other_code and not self.tables.repeatable:
                return Finding(name, True, "not evaluated: everything was written by other code", evaluated=False)
            return Finding(name, True, f"running the transform again gives what the sink holds{note}")
        told = f"compared with running the transform again, {lost.n} outputs are lost and {more.n} are too many{note}"
        return Finding(name, False, told, (*lost.examples[: SHOWN // 2], *more.examples[: SHOWN // 2]))

    def source_is_unique(self) -> Finding:
        holds = "no business key twice" + " since the last proof" * self.window.incremental
        return self.finding("source_is_unique", holds, "business keys more than once", severity="warning")

    def finding(
        self, tallied: str, holds: str, broken: str, name: str | None = None, severity: str = "error"
    ) -> Finding:
        found = self.tallies[tallied]
        detail = f"{found.n} {broken}" if found.n else holds
        return Finding(name or tallied, not found.n, detail, tuple(found.examples), severity)


def violations(check: str, frame: "DataFrame") -> "DataFrame":
    """Each row of a frame as one violation of a check, and as its example."""
    from pyspark.sql import functions as f

    told = [f.concat(f.lit(f"{c}="), f.coalesce(f.col(c).cast("string"), f.lit("null"))) for c in frame.columns]
    return frame.select(f.lit(check).alias("check"), f.lit(1).cast("long").alias("n"), f.concat_ws(", ", *told))


def tally(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of check, n and example in; sums and the first examples out. So violations without end take no memory."""
    for batch in batches:
        for check in pc.unique(batch["check"]).to_pylist():
            rows = batch.filter(pc.equal(batch["check"], check))
            examples = rows.column(2).drop_null().slice(0, SHOWN).to_pylist()
            yield pa.RecordBatch.from_pylist(
                [{"check": check, "n": pc.sum(rows["n"]).as_py(), "examples": examples}],
                pa.schema([("check", pa.string()), ("n", pa.int64()), ("examples", pa.list_(pa.string()))]),
            )


def misrouted(counts: dict[str, int]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Keyed records that are not where their key says."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keyed = batch.filter(batch["key"].is_valid())
            for topic in pc.unique(keyed["topic"]).to_pylist():
                rows = keyed.filter(pc.equal(keyed["topic"], topic))
                expected = partitions_of(rows["key"], counts[topic])
                wrong = pa.array(expected != rows["sink_partition"].to_numpy())
                bad = rows.drop_columns(["key"]).append_column("expected", pa.array(expected)).filter(wrong)
                if bad.num_rows:
                    yield bad

    return task
