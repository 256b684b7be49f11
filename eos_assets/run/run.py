"""A run: plan, one Spark job over the lagging partitions, again until nothing lags or the attempts are used up."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import MEANINGS, Code, EosError, Reaction
from eos_assets.kafka.auth_errors import CREDENTIALS_REMEDY, GRANT_REMEDY
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import stable_ends
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import ledger
from eos_assets.log.corrupt_entry import CorruptEntry
from eos_assets.log.ledger import LedgerEntry
from eos_assets.log.ranges import OffsetRange
from eos_assets.run.partition_alignment import kept_whole, outcomes_of
from eos_assets.run.plan import PartitionPlan, lost, make_plan
from eos_assets.run.poison_records import Isolation
from eos_assets.run.preflight.spark_version import check_spark, task_attempts
from eos_assets.run.preflight.topics import (
    LEDGER_SECONDS,
    check_genesis,
    check_group,
    check_state,
    check_timeout,
    check_topics,
    largest_batch,
)
from eos_assets.run.report import RunReport
from eos_assets.sink.delivery import OpenDelivery
from eos_assets.sink.faults import NoFaults
from eos_assets.sink.job import BATCH_BYTES, Job
from eos_assets.sink.outcome import NO_PARTITION, Outcome
from eos_assets.sink.task import closing_task, writing_task
from eos_assets.state.fold import Folded, Folding
from eos_assets.state.snapshot import Snapshot
from eos_assets.state.store import State
from eos_assets.transform.arrow_batches import LARGE_BYTES, batches
from eos_assets.transform.business_key import check_business_key
from eos_assets.transform.determinism import check_determinism
from eos_assets.transform.result_schema import originless, transformed, travelling
from eos_assets.transform.source import records
from eos_assets.transform.spark_errors import classify

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
    faults: NoFaults = field(default_factory=NoFaults)
    #: How batches are delivered in a weaker mode; None: each batch is a transaction.
    delivery: OpenDelivery | None = None
    #: Where snapshots of a state are, if they shall shorten its loading.
    lake: str | None = None
    #: A version of Spark to run on although it was not tested.
    accepted_spark: str | None = None
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
        if options.mode is not Mode.EXACTLY_ONCE and options.delivery is None:
            raise ValueError(f"mode {options.mode} needs its delivery, see eos_assets.experiment.baselines")
        self.report = RunReport(uuid.uuid4().hex[:12], pipeline.name, options.mode)
        self.swift = True
        #: Source partition → the position of the first plan. Only commits move it on.
        self.began: dict[int, int] = {}
        #: What was reported, and is not repeated by the next attempt.
        self.said: set[str] = set()
        self.isolation = Isolation(self)
        snapshot = Snapshot(pipeline, spark, connection, options.lake, options.say) if options.lake else None
        self.state = State(pipeline, spark, connection, snapshot)

    def execute(self) -> RunReport:
        begun = time.monotonic()
        try:
            plans = self.preflight()
        except CorruptEntry as found:
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
                if self.react(failure, plans, ranges):
                    fruitless = 0  # max_isolated ends it
                if any(o.reaction is Reaction.STOP for o in self.report.outcomes):
                    break
                plans = self.plan()
                continue
            self.take_in(outcomes)
            if any(o.reaction is Reaction.STOP for o in outcomes):
                break
            if self.pipeline.stateful and all(o.reaction is Reaction.DONE for o in outcomes):
                fruitless = 0  # one job is one slice: the next one goes on
            if fenced := {o.partition for o in outcomes if o.reaction is Reaction.WAIT}:
                self.await_other(fenced, goal)
            finished = {o.partition for o in outcomes if o.reaction is Reaction.DONE and o.next >= goal[o.partition]}
            plans = [] if finished >= {p.partition for p in plans} else self.plan()
        self.report.entries = self.entries(ledger_topic, before)
        self.report.seconds = time.monotonic() - begun
        return self.report

    def react(self, failure: Exception, plans: list[PartitionPlan], ranges: list[OffsetRange]) -> int:
        """What to do about a job that Spark gave up, by its code: go on, or refuse. Returns how many records were set
        aside as dead letters because the transform raises on them."""
        reported = classify(failure)
        if MEANINGS[reported.code].reaction is Reaction.STOP:
            raise self.refusal(reported.code, reported.message, reported.described) from failure
        self.note(reported.described)
        if reported.code is Code.FILE_UNREADABLE and not self.state.left_snapshot(failure):
            reported = replace(reported, code=Code.TRANSFORM_RAISED)  # a file that the transform reads
        if MEANINGS[reported.code].reaction is Reaction.RETRY:
            return 0
        return self.isolation.isolate(plans, ranges, reported)

    def take_in(self, outcomes: list[Outcome]) -> None:
        """What the tasks returned. One that shall be retried is a failed attempt, like a job that Spark gave up."""
        for outcome in outcomes:
            if outcome.code == Code.ROW_WITHOUT_ORIGIN:
                raise originless(self.pipeline)
            if outcome.partition == NO_PARTITION and outcome.reaction is Reaction.STOP:
                raise self.refusal(Code(outcome.code), outcome.reason, outcome.reason)
            if outcome.reaction is Reaction.RETRY and outcome.code != Code.STALE_PLAN:
                self.note(outcome.reason)
            else:
                self.report.outcomes.append(outcome)

    def say_once(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            self.options.say(text)

    def note(self, failure: str) -> None:
        self.report.failures.append(failure)
        self.options.say(f"attempt {self.report.attempts}: {failure}")

    def job_end(self, plan: PartitionPlan, goal: int) -> int:
        """Where one job ends. With state the plan does the cutting: one job is one transaction of each partition."""
        return min(goal, plan.position + self.pipeline.batching.records) if self.pipeline.stateful else goal

    def refusal(self, code: Code, message: str, described: str) -> EosError:
        """The error for what no retry heals, if it ended the whole job."""
        principal, name = self.connection.security.principal, self.pipeline.name
        if code is Code.PERMISSION_DENIED:
            problem = f"{principal} lacks a permission that Spark's reader needs: {message}."
            return EosError(problem, GRANT_REMEDY.format(principal=principal))
        if code is Code.AUTHENTICATION_FAILED:
            return EosError(f"The brokers rejected Spark's Kafka client: {message}.", CREDENTIALS_REMEDY)
        if code is Code.MODULE_MISSING:
            return EosError(
                f"The transform of {name} cannot run where its tasks do: {described}",
                "Install it there, or send it along with EOS_PY_FILES. No record is to blame, so none was set aside.",
            )
        if code is Code.MISPLACED_KEY:
            return EosError(
                f"{name}: {message}. State lives with the partition of its key, so the source must be keyed by the "
                "state's key, as Kafka's Java client does it.",
                "Correct what writes the source, or put a pipeline in between that sets the keys, or declare "
                "on_error='isolate' to make dead letters of such records. Nothing of them was written.",
            )
        return EosError(f"{name}: {MEANINGS[code].meaning}: {described}", f"{MEANINGS[code].remedy}.".capitalize())

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
        for message in read_partitions(self.connection, {(ledger_topic, p): start for p, start in before.items()}):
            entry = ledger.read(message)
            if isinstance(entry, LedgerEntry) and entry.run == self.report.run:
                self.report.ledger_offsets[entry.partition] = message.offset() or 0
                yield entry

    def preflight(self) -> list[PartitionPlan]:
        """Refuses what could not be kept exactly once, before anything runs; else the first plan."""
        check_spark(self.spark, self.options.accepted_spark)
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
            batching=self.pipeline.batching,
            batch_bytes=self.batch_bytes,
            faults=self.options.faults,
            delivery=self.options.delivery,
            changelogs=self.pipeline.changelogs(self.options.mode),
            marks=self.state.marks({p.partition: p.tail for p in plans}),
            source_partitions=self.source_partitions if self.pipeline.stateful else None,
            state_columns=self.state.columns if self.pipeline.stateful else None,
            task_attempts=task_attempts(self.spark),
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
            if classify(failure).code is not Code.BATCH_TOO_LARGE:
                raise
            self.swift = False  # nothing is wrong: large records travel another way
            outcomes = self.write(rows, job, swift=False)
        return self.closed(job, outcomes)

    def closed(self, job: Job, outcomes: list[Outcome]) -> list[Outcome]:
        """Commits the partitions of which no row came, if all others are done: a task that failed may have had more."""
        found = [o.partition for o in outcomes if o.partition != NO_PARTITION]
        if twice := {p for p in found if found.count(p) > 1}:
            raise EosError(
                f"Rows of {self.pipeline.source.name}/{min(twice)} came to two tasks: each may have committed a part.",
                f"See what is missing with `eos verify {self.pipeline.name} --full`, and run no such transform again.",
            )
        silent = sorted(set(job.ranges) - set(found))
        if silent and all(o.reaction is Reaction.DONE for o in outcomes):
            frame = self.spark.createDataFrame([(p,) for p in silent], "partition int").coalesce(1)
            outcomes += self.collect(outcomes_of(frame, closing_task(job)))
        return outcomes

    def write(self, rows: "DataFrame", job: Job, *, swift: bool) -> list[Outcome]:
        flat = rows if self.pipeline.stateful else travelling(rows, swift=swift)
        with batches(self.spark, swift=swift):
            whole = kept_whole(flat, writing_task(job), self.pipeline, len(job.ranges), self.say_once)
            return self.collect(whole)

    def transformed(self, ranges: list[OffsetRange]) -> "DataFrame":
        source = records(self.spark, self.connection, self.pipeline.source.name, ranges)
        result = transformed(self.pipeline, source, ranges)
        check_determinism(self.pipeline, source, [result])
        return result

    def folded(self, plans: list[PartitionPlan], ranges: list[OffsetRange], *, keep: bool = False) -> Folded:
        """What one job of a stateful pipeline writes, from the state at the plans' positions."""
        chosen = {r.partition for r in ranges}
        tails = {p.partition: p.tail for p in plans if p.partition in chosen}
        self.state.check(tails)
        source = records(self.spark, self.connection, self.pipeline.source.name, ranges)
        folding = Folding(self.pipeline, self.source_partitions, ranges, keep=keep)
        folded = folding.fold(source, self.state.at(tails))
        check_determinism(self.pipeline, source, [folded.outputs, *folded.changes])
        return folded

    @staticmethod
    def collect(outcomes: "DataFrame") -> list[Outcome]:
        """The one action of a job."""
        return [Outcome(**row.asDict()) for row in outcomes.collect()]

    def await_other(self, fenced: set[int], goal: dict[int, int]) -> None:
        """Somebody newer owns these partitions: wait while it makes progress, instead of fencing it back."""
        patience = self.pipeline.batching.timeout_ms / 1000
        positions: dict[int, int] = {}
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            now = {p.partition: p.position for p in self.plan() if p.partition in fenced}
            if all(now[p] >= goal[p] for p in fenced):
                return
            if now != positions:
                positions, deadline = now, time.monotonic() + patience
            time.sleep(POLL_SECONDS)


def known_to_be_large(plans: list[PartitionPlan]) -> bool:
    tails = [plan.tail for plan in plans if isinstance(plan.tail, LedgerEntry)]
    return any(tail.bytes_out > LARGE_BYTES * max(1, tail.records_out) for tail in tails)
