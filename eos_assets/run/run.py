"""A run: preflight, plan, one Spark job over the lagging partitions, and again until every partition is at its goal."""

import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from eos_assets.context import PipelineContext
from eos_assets.deadlines import Deadline
from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import MEANINGS, Code, EosError, Reaction
from eos_assets.kafka.auth_errors import NoBrokerAnswers
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import stable_ends
from eos_assets.kafka.reader import PartitionUnreadable
from eos_assets.kafka.retries import is_transient, retry_transient
from eos_assets.log.corrupt_entry import CorruptEntry
from eos_assets.log.ledger import LedgerEntry
from eos_assets.log.reader import CommittedReader
from eos_assets.run.arrow_job import ArrowJobRunner
from eos_assets.run.broker_watch import BrokerWatch
from eos_assets.run.grow_topics import grow_own_topics
from eos_assets.run.job import JobRunner, StatelessJobRunner
from eos_assets.run.plan import PartitionPlan, Planner, describe_held_back
from eos_assets.run.poison_records import PoisonRecords
from eos_assets.run.preflight.preflight import Preflight, run_preflight
from eos_assets.run.preflight.spark_version import task_attempts
from eos_assets.run.refusals import refusal
from eos_assets.run.report import RunReport, await_entries
from eos_assets.run.run_log import RunLog
from eos_assets.run.stateful_job import StatefulJobRunner
from eos_assets.sink.delivery import OpenDelivery
from eos_assets.sink.job import BATCH_BYTES, NO_PARTITION, Job, NoFaults, Outcome
from eos_assets.state.snapshot import Snapshot
from eos_assets.state.state import State
from eos_assets.transform.result_schema import row_without_origin
from eos_assets.transform.spark_errors import SparkFailure, classify, summarize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How often a fenced run reads the positions of the newer one.
POLL_SECONDS = 0.5


@dataclass
class RunOptions:
    """What a user may choose for one run."""

    mode: Mode = Mode.EXACTLY_ONCE
    partitions: Iterable[int] | None = None
    max_records: int | None = None
    #: Source partition → where the run ends at the latest; for all that are chosen, or None.
    upto: Mapping[int, int] | None = None
    max_attempts: int = 20
    faults: NoFaults = field(default_factory=NoFaults)
    #: The delivery of a baseline mode. None: transactions.
    delivery: OpenDelivery | None = None
    #: The folder of the snapshots that shorten the loading of a state; None: none is used.
    lake: str | None = None
    #: A version of Spark to run on although it was not tested.
    accepted_spark: str | None = None
    #: The name of the run in the ledger; default: a random one.
    run_id: str | None = None


def run_pipeline(
    pipeline: Pipeline, spark: "SparkSession", connection: Connection, options: RunOptions | None = None
) -> RunReport:
    """Bring every chosen partition to the end that is planned when the run begins: its last stable offset or, with a
    limit, before it."""
    options = options or RunOptions()
    context = PipelineContext(pipeline, spark, connection, options.mode)
    if not context.exactly_once and options.delivery is None:
        raise ValueError(f"mode {options.mode} needs its delivery, see eos_assets.experiment.baselines")
    planner = Planner(context, options.partitions, options.max_records, options.upto)
    started = time.monotonic()
    try:
        preflight = run_preflight(context, planner, options.accepted_spark)
    except CorruptEntry as error:
        raise EosError(error.problem, f"{error.remedy} Nothing was written.") from error
    grow_own_topics(context, preflight.partitions)
    report = RunReport(options.run_id or uuid.uuid4().hex[:12], pipeline.name, options.mode)
    jobs = job_runner(context, options, preflight, report.run)
    with BrokerWatch(context) as brokers:
        Run(context, planner, jobs, report, options.max_attempts, brokers).execute(preflight.plans)
    report.seconds = time.monotonic() - started
    return report


def job_runner(context: PipelineContext, options: RunOptions, preflight: Preflight, run: str) -> JobRunner:
    """What runs the jobs of this kind of pipeline."""
    pipeline, names = context.pipeline, context.names
    sinks = [names.sink(sink.name) for sink in pipeline.sinks]
    template = Job(
        names=names,
        kafka=context.kafka.config(),
        ranges={},
        geneses={},
        topic_ids=preflight.topic_ids,
        sink_partitions={sink: preflight.partitions[sink] for sink in sinks},
        default_topic=pipeline.sinks[0].name,
        run=run,
        run_attempt=0,
        code_version=pipeline.code_version,
        total=not pipeline.drops,
        batching=pipeline.batching,
        batch_bytes=min(BATCH_BYTES, smallest_message_limit(context)),
        faults=options.faults,
        delivery=options.delivery,
        changelogs=pipeline.changelogs(context.mode),
        task_attempts=task_attempts(context.spark),
    )
    if pipeline.takes_batches:
        return ArrowJobRunner(context, template)
    if not pipeline.stateful:
        return StatelessJobRunner(context, template)
    snapshot = Snapshot(context, options.lake) if options.lake else None
    source_partitions = preflight.partitions[pipeline.source.name]
    return StatefulJobRunner(context, template, State(context, snapshot), source_partitions)


def smallest_message_limit(context: PipelineContext) -> int:
    """The smallest `max.message.bytes` of the topics that are written. Brokers refuse a batch as a whole."""
    own = context.pipeline.own_topics(context.mode)
    resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in own]
    configs = [retry_transient(future.result) for future in context.kafka.admin.describe_configs(resources).values()]
    return min(int(config["max.message.bytes"].value) for config in configs)


class Run:
    """One run of one pipeline: plan, attempt, react."""

    def __init__(
        self,
        context: PipelineContext,
        planner: Planner,
        jobs: JobRunner,
        report: RunReport,
        max_attempts: int,
        brokers: BrokerWatch,
    ) -> None:
        self.context = context
        self.planner = planner
        self.jobs = jobs
        self.report = report
        self.max_attempts = max_attempts
        self.brokers = brokers
        self.poison_records = PoisonRecords(context, planner, jobs)
        self.log = RunLog(context, report.run)
        #: Source partition → where its ledger ended when the last attempt began.
        self.ledger_ends: dict[int, int] = {}

    def execute(self, plans: list[PartitionPlan]) -> None:
        """Run jobs until every partition is at its goal, and fill the report from the ledger."""
        ledger = self.context.names.ledger
        self.report.planned = {plan.partition: plan.range for plan in plans if plan.range.size}
        self.report.previous = {plan.partition: plan.tail for plan in plans if isinstance(plan.tail, LedgerEntry)}
        idle = [plan for plan in plans if not plan.range.size]
        self.report.held_back = describe_held_back(self.context.pipeline, self.context.kafka, idle)
        starts = self.ledger_ends = stable_ends(self.context.kafka, ledger, list(self.report.planned))
        try:
            self.report.complete = self._reach_goals(plans, {plan.partition: plan.end for plan in plans})
        except NoBrokerAnswers:
            raise
        except EosError:
            with suppress(EosError, KafkaException):  # what was committed before the refusal, if it can be read
                self._report_commits(starts, {})
            raise
        self._report_commits(starts, {o.partition: o.next for o in self.report.outcomes if o.outcome == "committed"})

    def _report_commits(self, starts: dict[int, int], committed: dict[int, int]) -> None:
        """Read what this run has committed from the ledger, and log it."""
        entries = await_entries(self.context.kafka, self.context.names.ledger, starts, self.report.run, committed)
        for _, entry in entries:
            self.log.committed(entry)
        self.report.entries = [entry for _, entry in entries]
        self.report.ledger_offsets = {entry.partition: offset for offset, entry in entries}

    def _reach_goals(self, plans: list[PartitionPlan], goals: dict[int, int]) -> bool:
        """Run jobs until every partition is at its goal; return whether they are. Later source records are left to the
        next run."""
        fruitless = 0
        while lagging := [p for p in plans if p.position < goals.get(p.partition, 0)]:
            if fruitless == self.max_attempts:
                return False
            self.report.attempts += 1
            if self.report.attempts > 1:  # for the first attempt they are known
                ledger = self.context.names.ledger
                self.ledger_ends = stable_ends(self.context.kafka, ledger, [p.partition for p in lagging])
            planned = [replace(p, end=self.jobs.job_end(p, goals[p.partition])) for p in lagging]
            outcomes, progressed = self._attempt(planned)
            fruitless = 0 if progressed else fruitless + 1
            if any(o.reaction is Reaction.STOP for o in self.report.outcomes):
                return False
            if fenced := {o.partition for o in outcomes if o.reaction is Reaction.WAIT}:
                self._wait_for_other_run(fenced, goals)
            at_goal = {o.partition for o in outcomes if o.reaction is Reaction.DONE and o.next >= goals[o.partition]}
            plans = [] if at_goal >= {p.partition for p in lagging} else self._plan_again()
        return True

    def _plan_again(self) -> list[PartitionPlan]:
        """Plan the next attempt. Brokers that do not answer are awaited, as in a job."""
        deadline = Deadline(self.context.kafka.wait_seconds)
        while not self.brokers.gave_up:
            try:
                return self.planner.plan()
            except (NoBrokerAnswers, PartitionUnreadable, KafkaException) as failure:
                passes = not isinstance(failure, KafkaException) or is_transient(failure.args[0])
                if not passes or deadline.passed:
                    raise
        raise self.brokers.error()

    def _attempt(self, plans: list[PartitionPlan]) -> tuple[list[Outcome], bool]:
        """Run one job. Returns its outcomes, none if Spark gave it up, and whether it made progress."""
        try:
            outcomes = self.jobs.run(plans, self.report.attempts)
        except EosError:
            raise
        except Exception as failure:
            if self.brokers.gave_up:
                raise self.brokers.error() from failure
            return [], self._react(failure, plans)
        self._record(outcomes)
        raised = {o.partition: o.reason for o in outcomes if o.reaction is Reaction.ISOLATE}
        if raised:
            return outcomes, self._react_to_raise(raised, plans)
        return outcomes, all(o.reaction is Reaction.DONE for o in outcomes)

    def _react_to_raise(self, raised: dict[int, str], plans: list[PartitionPlan]) -> bool:
        """React to tasks whose own call of the transform raised: stop, or isolate records."""
        concerned = [plan for plan in plans if plan.partition in raised]
        if self.context.pipeline.on_error == "isolate":
            return self._isolate(concerned)
        raise self.poison_records.refusal(concerned, SparkFailure(Code.TRANSFORM_RAISED, next(iter(raised.values()))))

    def _react(self, failure: Exception, plans: list[PartitionPlan]) -> bool:
        """React to a job that Spark gave up, by its code: stop, try again, or isolate records. Returns whether a record
        was isolated."""
        reported = classify(failure)
        if MEANINGS[reported.code].reaction is Reaction.STOP:
            raise refusal(self.context, reported.code, reported.message, reported.described) from failure
        self._record_failure(reported.described, [plan.partition for plan in plans])
        if reported.code is Code.FILE_UNREADABLE and not self.jobs.abandon_snapshot(failure):
            reported = replace(reported, code=Code.TRANSFORM_RAISED)  # a file that the transform reads
        if MEANINGS[reported.code].reaction is Reaction.RETRY:
            return False
        if self.context.pipeline.on_error == "stop":
            raise self.poison_records.refusal(plans, reported)
        return self._isolate(plans)

    def _isolate(self, plans: list[PartitionPlan]) -> bool:
        """Write the records that make the transform raise as dead letters. Any other failure on the way counts as a
        failed attempt."""
        before = self.poison_records.isolated
        try:
            for outcomes in self.poison_records.isolate(plans, self.report.attempts):
                self._record(outcomes)
        except EosError:
            raise
        except Exception as failure:
            self._record_failure(summarize(failure), [plan.partition for plan in plans])
        return self.poison_records.isolated > before

    def _record(self, outcomes: list[Outcome]) -> None:
        """Record what the tasks returned. One that is to be retried is a failed attempt, as is a job that Spark gave
        up."""
        for outcome in outcomes:
            if outcome.code == Code.ROW_WITHOUT_ORIGIN:
                raise row_without_origin(self.context.pipeline)
            if outcome.partition == NO_PARTITION and outcome.reaction is Reaction.STOP:
                raise refusal(self.context, Code(outcome.code), outcome.reason, outcome.reason)
            may_go_on = outcome.reaction in (Reaction.RETRY, Reaction.ISOLATE)
            if may_go_on and outcome.code != Code.STALE_PLAN:
                self.report.failures.append(outcome.reason)
            else:
                self.report.outcomes.append(outcome)
            if outcome.reaction is not Reaction.DONE:
                self.log.ended(outcome, self.report.attempts)

    def _record_failure(self, failure: str, partitions: Iterable[int]) -> None:
        self.report.failures.append(failure)
        self.log.failed(self.report.attempts, failure, partitions)

    def _wait_for_other_run(self, fenced: set[int], goals: dict[int, int]) -> None:
        """Wait while the newer run that owns these partitions makes progress, instead of fencing it in turn. An
        amendment has ended with its ledger entry, which moves no position."""
        self.log.waiting(self.report.attempts, fenced)
        deadline = Deadline(self.context.pipeline.batching.timeout_ms / 1000)
        last: dict[int, int] = {}
        while not deadline.passed:
            positions = {p.partition: p.position for p in self._plan_again() if p.partition in fenced}
            if all(positions[p] >= goals[p] for p in fenced):
                return
            if positions != last:
                last = positions
                deadline.restart()
            elif self._were_amended(fenced):
                return
            time.sleep(POLL_SECONDS)

    def _were_amended(self, fenced: set[int]) -> bool:
        """Whether the last entries of these ledger partitions are amendments since the attempt began."""
        reader = CommittedReader(self.context.kafka.config(), self.context.names)
        try:
            return all(reader.ends_with_amendment(p, self.ledger_ends.get(p, 0)) for p in fenced)
        finally:
            reader.close()
