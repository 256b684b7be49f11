"""Reads source, sink, dead letters and ledger from the brokers and evaluates every invariant. Trusts nothing else."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from eos_assets.declare.check import Finding
from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds_of
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import ledger
from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.run.preflight.permissions import check_permissions
from eos_assets.transform.arrow_batches import batches
from eos_assets.transform.business_key import check_business_key
from eos_assets.transform.spark_errors import classify
from eos_assets.verify import checkpoint as proven
from eos_assets.verify.context import Case, Scope
from eos_assets.verify.frames import Tables, check_maps, unioned
from eos_assets.verify.invariants import (
    SHOWN,
    Sums,
    code_versions,
    dropped_as_told,
    held_back,
    ledger_matches_sink,
    ledger_tiles_source,
    no_open_transactions,
    offsets_match_ledger,
)
from eos_assets.verify.observations import TOLD_SCHEMA
from eos_assets.verify.sink_checker import SinkJudge
from eos_assets.verify.source_checker import SourceJudge
from eos_assets.verify.state_checker import StateProof
from eos_assets.verify.tally import Tally, tallies
from eos_assets.verify.totals_check import ByTotals
from eos_assets.verify.verification import Verification
from eos_assets.verify.window import Looker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOR_EVER = 1 << 62
#: Brokers look for transactions that outlived their timeout every ten seconds.
SWEEP_SECONDS = 10.0
POLL_SECONDS = 0.5
Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def verify_pipeline(
    pipeline: Pipeline,
    spark: "SparkSession",
    connection: Connection,
    *,
    mode: Mode = Mode.EXACTLY_ONCE,
    isolation: str = "read_committed",
    full: bool = False,
    lake: str | None = None,
) -> Verification:
    """Evaluates every invariant on what was written since the last proof or, in full, on all that is retained.

    It writes nothing but the mark from which the next proof goes on, and that only if everything holds.
    """
    return Verifier(pipeline, spark, connection, mode, isolation, full=full, lake=lake).verify()


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
        lake: str | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.connection = connection
        self.mode = mode
        self.isolation = isolation
        self.names = pipeline.names(mode)
        self.full = full or isolation != "read_committed"
        self.lake = lake

    def verify(self) -> Verification:
        begun = time.monotonic()
        check_permissions(self.pipeline, self.connection, self.mode, writes=False)
        check_business_key(self.pipeline, self.spark)
        self.window = Looker(self.pipeline, self.connection, self.mode, full=self.full).look()
        about = (self.pipeline, self.spark, self.connection)
        self.proof = StateProof(*about, self.window, self.lake) if self.pipeline.stateful else None
        self.tables = Tables(*about, self.mode, self.window, self.proof)
        self.tallies = self.count()
        findings = [*self.about_the_records(), *self.about_the_ledger(), self.values_recompute()]
        findings.append(self.source_is_unique())
        if self.proof:
            findings.append(
                self.proof.state_recomputes(self.tables.bearable(self.proof.ranges) if self.proof.ranges else None)
            )
        findings.append(self.no_open_transactions(begun))
        result = Verification(
            self.pipeline.name,
            self.mode,
            findings,
            code_versions(self.history()),
            self.figures(),
            self.window.incremental,
            self.partition_rows(),
        )
        if result.holds and self.closed():
            proven.store(self.connection, self.names, self.window.ends)
        return result

    def history(self) -> Iterator[LedgerEntry]:
        """All entries of the ledger, also those before the last proof: they tell which code wrote what."""
        proven = {p: self.window.starts.get((self.names.ledger, p), 0) for p in self.window.partitions}
        places = {(self.names.ledger, p): 0 for p, upto in proven.items() if upto}
        for message in read_partitions(self.connection, places):
            if (message.offset() or 0) < proven[message.partition() or 0]:
                yield from entries([ledger.read(message)])
        for window in self.window.partitions.values():
            yield from entries(window.rows)

    def no_open_transactions(self, begun: float) -> Finding:
        """What was open at the first look gets until its timeout to end; only then is it stuck."""
        timeout = self.pipeline.batching.timeout_ms / 1000
        before = self.window.bounds
        while True:
            places = bounds_of(self.connection, [(topic, p) for topic, there in before.items() for p in there])
            after = {topic: {p: places[topic, p] for p in there} for topic, there in before.items()}
            seconds = time.monotonic() - begun
            ended = not held_back(before, after) or seconds >= timeout + SWEEP_SECONDS
            if ended or self.isolation != "read_committed":
                return no_open_transactions(before, after, seconds, timeout)
            time.sleep(POLL_SECONDS)

    def closed(self) -> bool:
        """Whether the next proof may begin where this one ended."""
        exact = self.mode is Mode.EXACTLY_ONCE and self.isolation == "read_committed"
        return exact and self.window.closed and not self.tallies["newer"].n

    def figures(self) -> dict[str, int]:
        names = ("source_records", "sink_records", "outputs_with_origin")
        unprovable = self.window.unprovable + self.tallies["vanished"].n
        return {**{name: self.tallies[name].n for name in names}, "no_longer_provable": unprovable}

    def partition_rows(self) -> list[dict[str, int | None]]:
        return [
            {"partition": p, "from": w.start, "upto": w.end, "position": w.position, "group_offset": w.group}
            for p, w in sorted(self.window.partitions.items())
        ]

    def case(self) -> Case:
        exact = self.mode is Mode.EXACTLY_ONCE
        numbers = {topic: number for number, topic in enumerate(self.tables.topics)}
        return Case(
            scopes={
                p: Scope(
                    w.start,
                    w.end if exact else FOR_EVER,
                    w.source.start,
                    w.repeatable.start,
                    w.proven or 0,
                    tuple(entry.start for entry in w.entries) if self.pipeline.drops else (),
                )
                for p, w in self.window.partitions.items()
            },
            topics=self.tables.topics,
            counts=self.tables.counts,
            faded={(numbers[t], p): last for (t, p), last in self.window.faded.items() if t in numbers},
            shared_sink=self.pipeline.shared_sink,
            declares_partitions=self.declares_partitions,
            drops=self.pipeline.drops,
            compares_letters=self.pipeline.deterministic and self.tables.compares_letters,
            incremental=self.window.incremental,
            source_is_compacted=self.window.source_is_compacted,
        )

    @property
    def declares_partitions(self) -> bool:
        return "partition" in self.tables.result_columns

    def count(self) -> dict[str, Tally]:
        """All that is counted: by totals if they are equal, else by comparing every row."""
        case = self.case()
        exact = self.mode is Mode.EXACTLY_ONCE and self.isolation == "read_committed"
        try:
            found = None
            if exact and not self.window.source_is_compacted:
                found = ByTotals(self.tables, case).tallies()
            return self.compare_rows(case) if found is None else found
        except EosError:
            raise
        except Exception as failure:
            check_maps(failure, self.connection, self.names.provenance)
            raise EosError(
                f"{self.pipeline.name} could not be proven to the end: {classify(failure).described}",
                "If that is what the transform raises today on records of earlier: correct it, or declare another "
                "code_version. Nothing is said about the invariants.",
            ) from failure

    def compare_rows(self, case: Case) -> dict[str, Tally]:
        """In one Spark job: each topic is read, sorted and judged, and the transform run again."""
        frames = [
            self.tables.along_the_sinks(self.isolation).mapInArrow(sink_task(case), TOLD_SCHEMA),
            self.tables.along_the_source().mapInArrow(source_task(case), TOLD_SCHEMA),
        ]
        if self.pipeline.deterministic and self.tables.repeatable:
            frames.append(self.tables.again())
        if self.tables.retained and self.pipeline.unique:
            frames.append(self.tables.repeated_keys())
        if self.proof and self.tables.retained and self.pipeline.on_error == "stop":
            frames.append(self.tables.misplaced())
        with batches(self.spark, swift=False):
            return tallies(unioned(frames), by_origin=self.mode is Mode.EXACTLY_ONCE)

    def about_the_records(self) -> Iterator[Finding]:
        outputs, sources = self.tallies["outputs_with_origin"].n, self.tallies["source_records"].n
        yield self.finding("no_duplicates", f"{outputs:,} outputs, each origin once", "origins visible more than once")
        yield self.none_missing(f"{sources:,} source records accounted for")
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

    def none_missing(self, holds: str) -> Finding:
        """Also, where records are dropped, the ledger's count of them is the one that is found again."""
        found = self.finding("none_missing", holds, "records missing")
        if not self.pipeline.drops or self.mode is not Mode.EXACTLY_ONCE:
            return found
        rows = (json.loads(text) for text in self.tallies["dropped"].examples)
        dropped = {(partition, start): n for partition, start, n in rows}
        provable = [e for w in self.window.partitions.values() for e in w.entries if e.start >= w.repeatable.start]
        wrong = dropped_as_told([] if self.window.source_is_compacted else provable, dropped)
        if not found.holds or not wrong.count:
            note = f", {sum(dropped.values()):,} of them dropped by the transform" if found.holds else ""
            return replace(found, detail=f"{found.detail}{note}")
        return wrong.finding("none_missing", holds, "transactions dropped more or less than the ledger says")

    def about_the_ledger(self) -> list[Finding]:
        """In the weaker modes the ledger is not atomic with the output, so it proves nothing there."""
        if self.mode is not Mode.EXACTLY_ONCE:
            return []
        windows = self.window.partitions
        known = (w for w in windows.values() if w.position is not None or w.group is not None)
        positions = {w.partition: w.position for w in known}  # an empty ledger beside a group offset was lost
        groups = {p: w.group for p, w in windows.items() if w.group_known}
        return [
            ledger_tiles_source({p: w.rows for p, w in windows.items()}, {p: w.proven for p, w in windows.items()}),
            ledger_matches_sink((entry for w in windows.values() for entry in w.entries), self.sink_sums()),
            offsets_match_ledger(positions, groups),
        ]

    def sink_sums(self) -> Sums:
        """Count, first, last and digest of each transaction in each sink partition, recomputed from the topics."""
        found: Sums = {}
        for text in self.tallies["sum"].examples:
            origin, start, topic, partition, n, low, high, digest = json.loads(text)
            found[origin, start, topic, partition] = (
                n,
                low,
                high,
                0 if topic == self.names.dead_letters else digest,
            )
        return found

    def values_recompute(self) -> Finding:
        """The transform, run again on the source and cut elsewhere, gives the same outputs: a difference of multisets
        both ways, which trusts nothing that the sink wrote about itself."""
        name = "values_recompute"
        if not self.pipeline.deterministic:
            return Finding(name, True, "not evaluated: the pipeline says that it is not deterministic", evaluated=False)
        if self.proof and self.proof.reasons and not self.tables.repeatable:
            return Finding(name, True, f"not evaluated: {self.proof.unknown()}", evaluated=False)
        lost, more = self.tallies["lost"], self.tallies["too many"]
        other_code = sum(w.repeatable.start - w.source.start for w in self.window.partitions.values())
        why = "lie before the state that is known" if self.proof else "were written by other code"
        note = f"; {other_code:,} offsets {why} and are left out" if other_code else ""
        if not lost.n and not more.n:
            if other_code and not self.tables.repeatable:
                return Finding(name, True, "not evaluated: everything was written by other code", evaluated=False)
            return Finding(name, True, f"running the transform again gives what the sink holds{note}")
        told = f"compared with running the transform again, {lost.n} outputs are lost and {more.n} are too many{note}"
        return Finding(name, False, told, (*lost.examples[: SHOWN // 2], *more.examples[: SHOWN // 2]))

    def source_is_unique(self) -> Finding:
        if not self.pipeline.unique:
            return Finding("source_is_unique", True, "not evaluated: no `unique` key is declared", evaluated=False)
        holds = "no business key twice" + " since the last proof" * self.window.incremental
        return self.finding("source_is_unique", holds, "business keys more than once", severity="warning")

    def finding(
        self, tallied: str, holds: str, broken: str, name: str | None = None, severity: str = "error"
    ) -> Finding:
        found = self.tallies[tallied]
        detail = f"{found.n} {broken}" if found.n else holds
        return Finding(name or tallied, not found.n, detail, tuple(found.examples[:SHOWN]), severity)


def entries(rows: Iterable[Genesis | LedgerEntry]) -> Iterator[LedgerEntry]:
    return (row for row in rows if isinstance(row, LedgerEntry))


def sink_task(case: Case) -> Task:
    return lambda batches: SinkJudge(case).judge(batches)


def source_task(case: Case) -> Task:
    return lambda batches: SourceJudge(case).judge(batches)
