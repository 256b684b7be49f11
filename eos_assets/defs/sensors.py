"""Sensors: new records bring a run, failures bring another one with back-off, and what is stuck is said aloud."""

import json
import time
from dataclasses import asdict, dataclass, field

import dagster as dg

from eos_assets.defs.checks import facts
from eos_assets.defs.jobs import AssetJob
from eos_assets.defs.partitions import missing_keys
from eos_assets.defs.transactional_topic import sink_keys
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.exactly_once.plan import PartitionPlan, make_plan
from eos_assets.resources.kafka import KafkaResource

SECONDS = 5
#: At most so many offsets of each partition in one run; the next tick asks for the next ones.
RECORDS_A_RUN = 5_000_000
#: What does not move is tried so often; the wait before each try doubles.
TRIES = 5
FIRST_WAIT_SECONDS = 10.0
ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


class GivenUp(Exception):
    """Shown as a red tick in the UI, again and again, until a person has looked."""


@dataclass
class Tries:
    """How often something was asked for without effect, and when last. `at` is what did not move."""

    at: int = 0
    count: int = 0
    asked_at: float = 0.0

    def wait(self, now: float) -> float:
        """The seconds until the next try may begin: each wait is twice the last one."""
        return max(0.0, self.asked_at + FIRST_WAIT_SECONDS * 2 ** (self.count - 1) - now) if self.count else 0.0

    def again(self, now: float) -> "Tries":
        return Tries(self.at, self.count + 1, now)


@dataclass
class Cursor:
    """What was asked for last, by source partition or by the name of what is watched."""

    tries: dict[str, Tries] = field(default_factory=dict)

    @staticmethod
    def load(text: str | None) -> "Cursor":
        return Cursor({name: Tries(**tries) for name, tries in json.loads(text).items()}) if text else Cursor()

    def dump(self) -> str:
        return json.dumps({name: asdict(tries) for name, tries in self.tries.items()})

    def of(self, name: str, at: int) -> Tries:
        """The tries at this position: none, if it has moved since."""
        known = self.tries.get(name)
        return known if known and known.at == at else Tries(at)


def new_records(pipeline: Pipeline, job: AssetJob) -> dg.SensorDefinition:
    """One run over the smallest range of partitions that covers the lagging ones, one at a time."""

    @dg.sensor(
        name=f"{pipeline.name}_new_records",
        job=job,
        minimum_interval_seconds=SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Runs {pipeline.name} when {pipeline.source.name} has new records; repeats with back-off, then "
        "gives up aloud.",
    )
    def sensor(context: dg.SensorEvaluationContext, kafka: KafkaResource) -> dg.SensorResult | dg.SkipReason:
        connection = kafka.connection()
        existing = connection.metadata().topics
        needed = [pipeline.source.name, *(topic.name for topic in pipeline.own_topics())]
        if missing := [name for name in needed if name not in existing]:
            return dg.SkipReason(f"These topics do not exist yet: {', '.join(missing)} (`eos topics create`).")
        grown = missing_keys(context.instance, pipeline.source.name, connection)
        requests = [topic_requests(pipeline, grown)] if grown else []
        if active_runs(context.instance, job.name):
            return dg.SensorResult(skip_reason="A run is under way.", dynamic_partitions_requests=requests)
        plans = make_plan(pipeline, connection)
        cursor, now = Cursor.load(context.cursor), time.time()
        known = {str(p.partition): cursor.of(str(p.partition), p.position) for p in plans if p.lag}
        held = watch_source(pipeline, plans, cursor, now)
        due = [p for p in plans if p.lag and ready(known[str(p.partition)], now)]
        for plan in due:
            known[str(plan.partition)] = known[str(plan.partition)].again(now)
        cursor = Cursor({**known, **held})
        given_up = [name for name, tries in known.items() if tries.count >= TRIES and tries.wait(now) <= 0]
        if not due and given_up:
            told = f"{pipeline.name} was run {TRIES} times and partitions {', '.join(given_up)} did not move: given up."
            raise GivenUp(f"{told} Look at the last runs, then reset this sensor's cursor.")
        late = [name for name, tries in held.items() if now - tries.asked_at > pipeline.transaction_timeout_ms / 1000]
        if not due and late:
            raise GivenUp(f"{', '.join(late)}: an open transaction holds the source back, longer than its timeout.")
        if not due:
            reason = "Waiting before the next try." if known else "Nothing new."
            return dg.SensorResult(skip_reason=reason, cursor=cursor.dump(), dynamic_partitions_requests=requests)
        return dg.SensorResult(
            run_requests=[request(pipeline, due, known, now)],
            cursor=cursor.dump(),
            dynamic_partitions_requests=requests,
        )

    return sensor


def ready(tries: Tries, now: float) -> bool:
    return tries.count < TRIES and tries.wait(now) <= 0


def watch_source(pipeline: Pipeline, plans: list[PartitionPlan], cursor: Cursor, now: float) -> dict[str, Tries]:
    """Partitions of the source that hold more than can be read, and since when: somebody's transaction is open."""
    held = {}
    for plan in plans:
        if plan.high_watermark > plan.stable_end:
            name = f"{pipeline.source.name}/{plan.partition}"
            known = cursor.of(name, plan.stable_end)
            held[name] = known if known.asked_at else Tries(plan.stable_end, 0, now)
    return held


def topic_requests(pipeline: Pipeline, keys: list[str]) -> dg.AddDynamicPartitionsRequest:
    return dg.AddDynamicPartitionsRequest(f"{pipeline.source.name}_partitions", keys)


def active_runs(instance: dg.DagsterInstance, job_name: str) -> bool:
    return bool(instance.get_run_ids(dg.RunsFilter(job_name=job_name, statuses=ACTIVE), limit=1))


def request(pipeline: Pipeline, due: list[PartitionPlan], known: dict[str, Tries], now: float) -> dg.RunRequest:
    """A used run key never runs again: the range and the try are in it."""
    low, high = min(p.partition for p in due), max(p.partition for p in due)
    ranges = ",".join(f"{p.partition}:{p.position}-{p.stable_end}" for p in due)
    tries = max(known[str(p.partition)].count for p in due)
    config = {"ops": {pipeline.name: {"config": {"max_records": RECORDS_A_RUN}}}}
    return dg.RunRequest(
        run_key=f"{pipeline.name}/{ranges}/{tries}/{now:.3f}",
        run_config=config,
        tags={RANGE_START: str(low), RANGE_END: str(high), "eos/try": str(tries)},
    )


def failed_checks(pipeline: Pipeline, run: AssetJob, checks: AssetJob) -> dg.SensorDefinition:
    """A failed check is evaluated again with back-off, then raised as given up."""
    keys = [dg.AssetCheckKey(sink_keys(pipeline)[0], name) for name in facts(pipeline)]

    @dg.sensor(
        name=f"{pipeline.name}_failed_checks",
        job=checks,
        minimum_interval_seconds=SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Evaluates the checks of {pipeline.name} again when one failed; gives up aloud.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor, now = Cursor.load(context.cursor), time.time()
        if active_runs(context.instance, checks.name) or active_runs(context.instance, run.name):
            return dg.SensorResult(skip_reason="The checks are being evaluated.", cursor=cursor.dump())
        failed = failing(context.instance, keys)
        if not failed:
            return dg.SensorResult(skip_reason="No check has failed.", cursor=Cursor().dump())
        tries = cursor.of("checks", 0)
        if tries.count >= TRIES:
            raise GivenUp(f"{', '.join(failed)} failed {TRIES} times: given up. Look at the counter-examples.")
        if tries.wait(now) > 0:
            return dg.SensorResult(skip_reason="Waiting before the next try.", cursor=cursor.dump())
        tries = tries.again(now)
        key = f"{pipeline.name}/checks/{tries.count}/{now:.3f}"
        return dg.SensorResult(run_requests=[dg.RunRequest(run_key=key)], cursor=Cursor({"checks": tries}).dump())

    return sensor


def failing(instance: dg.DagsterInstance, keys: list[dg.AssetCheckKey]) -> list[str]:
    """The checks whose last evaluation failed, or was planned and never came; warnings are not tried again."""
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    failed = []
    for key, record in records.items():
        event = record.event.dagster_event if record.event else None
        if event is None or event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            failed.append(key.name)
            continue
        evaluation = event.asset_check_evaluation_data
        if not evaluation.passed and evaluation.severity == dg.AssetCheckSeverity.ERROR:
            failed.append(key.name)
    return sorted(failed)
