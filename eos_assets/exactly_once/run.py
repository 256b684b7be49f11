"""A run: plan, one Spark job over the lagging partitions, again until nothing lags or the attempts are used up."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eos_assets.errors import EosError
from eos_assets.exactly_once import ledger
from eos_assets.exactly_once.batches import batches, known_to_be_large
from eos_assets.exactly_once.business_key import check_business_key
from eos_assets.exactly_once.failures import Failures
from eos_assets.exactly_once.folding import Folded, Folding, misplaced
from eos_assets.exactly_once.foreign import Foreign
from eos_assets.exactly_once.isolation import Isolation
from eos_assets.exactly_once.job import BATCH_BYTES, Job, OffsetRange
from eos_assets.exactly_once.ledger import LedgerEntry
from eos_assets.exactly_once.modes import Mode
from eos_assets.exactly_once.narrow import kept_whole, outcomes_of
from eos_assets.exactly_once.outcome import Outcome
from eos_assets.exactly_once.pieces import without_origin
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.exactly_once.plan import PartitionPlan, lost, make_plan
from eos_assets.exactly_once.preflight import (
    LEDGER_SECONDS,
    check_genesis,
    check_group,
    check_state,
    check_timeout,
    check_topics,
    largest_batch,
)
from eos_assets.exactly_once.report import DONE, RunReport
from eos_assets.exactly_once.shape import TOO_LARGE, originless, transformed, travelling
from eos_assets.exactly_once.snapshot import Snapshot
from eos_assets.exactly_once.source import records
from eos_assets.exactly_once.spark_errors import brief, may_heal, quotes_records
from eos_assets.exactly_once.state import State
from eos_assets.exactly_once.tasks import closing_task, writing_task
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.denied import denied_in_spark
from eos_assets.kafka.offsets import stable_ends
from eos_assets.kafka.tail import streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: How often a fenced run looks whether the newer one has finished its work.
POLL_SECONDS = 0.5


@dataclass
class RunOptions:
    """What a user may choose for one run."""

    mode: Mode = Mode.EXACTLY_ONCE
    partitions: Iterable[int] | None = None
    max_records: int | None = None
    #: Source partition → where the run ends at the latest; all that are chosen, or None.
    upto: Mapping[int, int] | None = None
    max_attempts: int = 20
    failures: Failures = field(default_factory=Failures)
    #: Where snapshots of a state are, if they shall shorten its loading.
    lake: str | None = None
    say: Callable[[str], None] = lambda _: None


def run_pipeline(
    pipeline: Pipeline, spark: "SparkSession", connection: Connection, options: RunOptions | None = None
) -> RunReport:
    """Brings every chosen partition to the last stable offset of the moment the run began."""
    return Run(pipeline, spark, connection, options or RunOptions()).execute()


class Run:
    """One run of one pipeline."""

    def __init__(self, pipeline: Pipeline, spark: "SparkSession", connection: Connection, options: RunOptions) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.connection = connection
        self.options = options
        self.report = RunReport(uuid.uuid4().hex[:12], pipeline.name, options.mode)
        self.swift = True
        #: Source partition → the position of the first plan. Only commits move it on.
        self.began: dict[int, int] = {}
        self.isolation = Isolation(self)
        snapshot = Snapshot(pipeline, spark, connection, options.lake, options.say) if options.lake else None
        self.state = State(pipeline, spark, connection, snapshot)

    def execute(self) -> RunReport:
        begun = time.monotonic()
        try:
            plans = self.preflight()
        except Foreign as found:
            raise EosError(found.problem, f"{found.remedy} Nothing was written.") from found
        ledger_topic = self.pipeline.names(self.options.mode).ledger
        self.report.planned = {plan.partition: plan.range for plan in plans if plan.range.size}
        before = stable_ends(self.connection, ledger_topic, list(self.report.planned))
        goal = {plan.partition: plan.end for plan in plans}
        fruitless = 0
        while True:
            plans = [p for p in plans if p.position < goal.get(p.partition, 0)]  # what grew meanwhile comes next time
            if not plans:
                self.report.complete = True
                break
            if fruitless == self.options.max_attempts:
                break
            self.report.attempts += 1
            fruitless += 1
            ranges = [OffsetRange(p.partition, p.position, self.job_end(p, goal[p.partition])) for p in plans]
            try:
                outcomes = self.attempt(plans, ranges)
            except EosError:
                raise
            except Exception as failure:
                self.refuse_denied(failure)
                self.refuse_misplaced(failure)
                if without_origin(failure):
                    raise originless(self.pipeline) from failure
                self.note(failure)
                heals = may_heal(failure) or self.state.left_snapshot(failure)
                if not heals and self.isolation.isolate(plans, ranges, brief(failure)):
                    fruitless = 0  # max_isolated ends it
                if any(o.outcome in ("refused", "failed") for o in self.report.outcomes):
                    break
                plans = self.plan()
                continue
            self.report.outcomes += outcomes
            if any(o.outcome in ("refused", "failed") for o in outcomes):
                break
            if self.pipeline.stateful and all(o.outcome in DONE for o in outcomes):
                fruitless = 0  # one job is one slice: the next one goes on
            if any(o.outcome == "fenced" for o in outcomes):
                self.await_other({o.partition for o in outcomes if o.outcome == "fenced"}, goal)
            finished = {o.partition for o in outcomes if o.outcome in DONE and o.next >= goal[o.partition]}
            plans = [] if finished >= {p.partition for p in plans} else self.plan()
        self.report.entries = self.entries(ledger_topic, before)
        self.report.seconds = time.monotonic() - begun
        return self.report

    def note(self, failure: Exception) -> None:
        self.report.failures.append(brief(failure))
        self.options.say(f"attempt {self.report.attempts}: {self.report.failures[-1]}")

    def job_end(self, plan: PartitionPlan, goal: int) -> int:
        """Where one job ends. With state the plan does the cutting: one job is one transaction of each partition."""
        return min(goal, plan.position + self.pipeline.slice_records) if self.pipeline.stateful else goal

    def refuse_denied(self, failure: Exception) -> None:
        turned_away = denied_in_spark(str(failure), self.connection.security.principal)
        if turned_away and not quotes_records(str(failure)):
            raise turned_away from failure

    def refuse_misplaced(self, failure: Exception) -> None:
        if told := misplaced(failure):
            raise EosError(
                f"{self.pipeline.name}: {told}. State lives with the partition of its key, so the source must be keyed "
                "by the state's key, as Kafka's Java client does it.",
                "Mend what writes the source, or put a pipeline in between that keys it anew, or declare "
                "on_error='isolate' to make dead letters of such records. Nothing of them was written.",
            ) from failure

    def entries(self, ledger_topic: str, before: dict[int, int]) -> list[LedgerEntry]:
        """All entries of this run. The end of a transaction reaches the ledger's partitions some time after its commit
        was answered, so they are awaited."""
        committed = {o.partition: o.next for o in self.report.outcomes if o.outcome == "committed"}
        deadline = time.monotonic() + LEDGER_SECONDS
        while True:
            found = list(self.written(ledger_topic, before))
            reached = {entry.partition: entry.next for entry in found}
            if time.monotonic() > deadline or all(reached.get(p, -1) >= end for p, end in committed.items()):
                return sorted(found, key=lambda entry: (entry.partition, entry.start))
            time.sleep(0.005)

    def written(self, ledger_topic: str, before: dict[int, int]) -> Iterator[LedgerEntry]:
        """The entries of this run, from the ledger."""
        for message in streams(self.connection, {(ledger_topic, p): start for p, start in before.items()}):
            entry = ledger.read(message)
            if isinstance(entry, LedgerEntry) and entry.run == self.report.run:
                self.report.ledger_offsets[entry.partition] = message.offset() or 0
                yield entry

    def preflight(self) -> list[PartitionPlan]:
        """Refuses what could not be kept exactly once, before anything runs; else the first plan."""
        if str(self.spark.conf.get("spark.speculation", "false")).lower() == "true":
            raise EosError(
                "Speculation is switched on in this Spark: two copies of a task would fence each other.",
                "Set spark.speculation to false.",
            )
        check_business_key(self.pipeline, self.spark)
        check_state(self.pipeline, self.connection, self.options.mode)
        partitions = check_topics(self.pipeline, self.connection, self.options.mode)
        sinks = map(self.pipeline.names(self.options.mode).sink, (sink.name for sink in self.pipeline.sinks))
        self.sink_partitions = {sink: partitions[sink] for sink in sinks}
        self.source_partitions = partitions[self.pipeline.source.name]
        self.batch_bytes = min(BATCH_BYTES, largest_batch(self.pipeline, self.connection, self.options.mode))
        check_timeout(self.pipeline, self.connection)
        check_group(self.pipeline, self.connection, self.options.mode)
        plans = self.plan()
        self.topic_ids = check_genesis(self.pipeline, self.connection, self.options.mode, plans, partitions)
        if self.pipeline.stateful:
            self.state.check_columns(plan.genesis for plan in plans)
        return plans

    def plan(self) -> list[PartitionPlan]:
        plans = make_plan(
            self.pipeline,
            self.connection,
            mode=self.options.mode,
            partitions=self.options.partitions,
            max_records=self.options.max_records,
            upto=self.options.upto,
        )
        for plan in plans:
            began = self.began.setdefault(plan.partition, plan.position)
            if plan.position > began and plan.tail is None and self.options.mode is Mode.EXACTLY_ONCE:
                raise EosError(
                    lost(self.pipeline, plan.partition, began, plan.position),
                    f"If that is accepted, run it again: it begins at {plan.position}.",
                )
        return plans

    def job(self, plans: list[PartitionPlan], ranges: list[OffsetRange]) -> Job:
        return Job(
            names=self.pipeline.names(self.options.mode),
            kafka=self.connection.config(),
            ranges={r.partition: r for r in ranges},
            geneses={p.partition: p.position for p in plans if p.tail is None},
            topic_ids=self.topic_ids,
            sink_partitions=self.sink_partitions,
            default_topic=self.pipeline.sinks[0].name,
            run=self.report.run,
            run_attempt=self.report.attempts,
            code_version=self.pipeline.code_version,
            total=not self.pipeline.drops,
            slice_records=self.pipeline.slice_records,
            slice_bytes=self.pipeline.slice_bytes,
            transaction_timeout_ms=self.pipeline.transaction_timeout_ms,
            batch_bytes=self.batch_bytes,
            failures=self.options.failures,
            changelogs=self.pipeline.changelogs(self.options.mode),
            marks=self.state.marks({p.partition: p.tail for p in plans}),
            source_partitions=self.source_partitions if self.pipeline.stateful else None,
            state_columns=self.state.columns if self.pipeline.stateful else None,
        )

    def attempt(self, plans: list[PartitionPlan], ranges: list[OffsetRange]) -> list[Outcome]:
        """One Spark job, and then the partitions that gave no row at all: only after the job has succeeded."""
        job = self.job(plans, ranges)
        if self.pipeline.stateful:
            folded = self.folded(plans, ranges, keep=True)
            try:
                return self.closed(job, self.write(folded.rows(), job, swift=False))
            finally:
                folded.release()
        rows = self.transformed(ranges)
        swift = self.swift and "headers" not in rows.columns and not known_to_be_large(plans)
        try:
            outcomes = self.write(rows, job, swift=swift)
        except Exception as failure:
            if not swift or TOO_LARGE not in str(failure):
                raise
            self.swift = False  # nothing is wrong: large records travel another way
            outcomes = self.write(rows, job, swift=False)
        return self.closed(job, outcomes)

    def closed(self, job: Job, outcomes: list[Outcome]) -> list[Outcome]:
        found = [o.partition for o in outcomes]
        if twice := {p for p in found if found.count(p) > 1}:
            raise EosError(
                f"Rows of {self.pipeline.source.name}/{min(twice)} came to two tasks: each may have committed a part.",
                f"See what is missing with `eos verify {self.pipeline.name} --full`, and run no such transform again.",
            )
        silent = sorted(set(job.ranges) - set(found))
        if silent:
            frame = self.spark.createDataFrame([(p,) for p in silent], "partition int").coalesce(1)
            outcomes += self.collect(outcomes_of(frame, closing_task(job)))
        return outcomes

    def write(self, rows: "DataFrame", job: Job, *, swift: bool) -> list[Outcome]:
        flat = rows if self.pipeline.stateful else travelling(rows, swift=swift)
        with batches(self.spark, swift=swift):
            whole = kept_whole(flat, writing_task(job), self.pipeline, len(job.ranges))
            return self.collect(whole)

    def transformed(self, ranges: list[OffsetRange]) -> "DataFrame":
        source = records(self.spark, self.connection, self.pipeline.source.name, ranges)
        return transformed(self.pipeline, source)

    def folded(self, plans: list[PartitionPlan], ranges: list[OffsetRange], *, keep: bool = False) -> Folded:
        """What one job of a stateful pipeline writes, from the state at the plans' positions."""
        chosen = {r.partition for r in ranges}
        tails = {p.partition: p.tail for p in plans if p.partition in chosen}
        self.state.check(tails)
        source = records(self.spark, self.connection, self.pipeline.source.name, ranges)
        folding = Folding(self.pipeline, self.source_partitions, {r.partition: r.end for r in ranges}, keep=keep)
        try:
            return folding.fold(source, self.state.at(tails))
        except EosError:
            raise
        except Exception as failure:
            raise EosError(
                f"The function of {self.pipeline.name} cannot be planned: {brief(failure)}",
                "Mend it; nothing was read or written.",
            ) from failure

    @staticmethod
    def collect(outcomes: "DataFrame") -> list[Outcome]:
        """The one action of a job."""
        return [Outcome(**row.asDict()) for row in outcomes.collect()]

    def await_other(self, fenced: set[int], goal: dict[int, int]) -> None:
        """Somebody newer owns these partitions: wait while it makes progress, instead of fencing it back."""
        patience = self.pipeline.transaction_timeout_ms / 1000
        positions: dict[int, int] = {}
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            now = {p.partition: p.position for p in self.plan() if p.partition in fenced}
            if all(now[p] >= goal[p] for p in fenced):
                return
            if now != positions:
                positions, deadline = now, time.monotonic() + patience
            time.sleep(POLL_SECONDS)
