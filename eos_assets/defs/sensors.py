"""Sensors: new records bring a run, failures bring another one with back-off, and what is stuck is said aloud."""

import json
import time
from dataclasses import asdict, dataclass, field

import dagster as dg

from eos_assets.defs.checks import FACTS
from eos_assets.defs.jobs import AssetJob
from eos_assets.defs.partitions import missing_keys
from eos_assets.defs.transactional_topic import sink_keys
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.exactly_once.plan import PartitionPlan, make_plan
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets.resources.kafka import KafkaResource

SECONDS = 5
#: At most so many offsets of each partition in one run; the next tick asks for the next ones.
RECORDS_A_RUN = 5_000_000
#: A position that does not move is tried so often; the wait before each try doubles.
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
class Cursor:
    """What was asked for last, and how often without effect."""

    positions: dict[str, int] = field(default_factory=dict)
    tries: int = 0
    asked_at: float = 0.0

    @staticmethod
    def load(text: str | None) -> "Cursor":
        return Cursor(**json.loads(text)) if text else Cursor()

    def dump(self) -> str:
        return json.dumps(asdict(self))

    def waits(self, now: float) -> float:
        """The seconds until the next try may begin."""
        wait = FIRST_WAIT_SECONDS * 2 ** max(0, self.tries - 1)
        return max(0.0, self.asked_at + wait - now) if self.tries else 0.0


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
        lagging = [plan for plan in plans if plan.lag]
        cursor = Cursor.load(context.cursor)
        if not lagging:
            stuck(pipeline, plans, connection)
            cursor = Cursor()
            return dg.SensorResult(
                skip_reason="Nothing new.", cursor=cursor.dump(), dynamic_partitions_requests=requests
            )
        positions = {str(plan.partition): plan.position for plan in lagging}
        cursor = advanced(cursor, positions)
        if cursor.tries >= TRIES:
            told = f"{pipeline.name} was run {TRIES} times and {positions} did not move: given up."
            raise GivenUp(f"{told} Look at the last runs, then reset this sensor's cursor.")
        if (wait := cursor.waits(time.time())) > 0:
            return dg.SensorResult(
                skip_reason=f"Try {cursor.tries} had no effect; the next one begins in {wait:.0f} s.",
                cursor=cursor.dump(),
                dynamic_partitions_requests=requests,
            )
        cursor = Cursor(positions, cursor.tries + 1, time.time())
        return dg.SensorResult(
            run_requests=[request(pipeline, lagging, cursor)],
            cursor=cursor.dump(),
            dynamic_partitions_requests=requests,
        )

    return sensor


def topic_requests(pipeline: Pipeline, keys: list[str]) -> dg.AddDynamicPartitionsRequest:
    return dg.AddDynamicPartitionsRequest(f"{pipeline.source.name}_partitions", keys)


def active_runs(instance: dg.DagsterInstance, job_name: str) -> bool:
    return bool(instance.get_run_ids(dg.RunsFilter(job_name=job_name, statuses=ACTIVE), limit=1))


def advanced(cursor: Cursor, positions: dict[str, int]) -> Cursor:
    """The same cursor, or a new one if any position moved since the last try."""
    moved = any(positions.get(p) != at for p, at in cursor.positions.items()) or not cursor.positions
    return Cursor(positions) if moved else cursor


def request(pipeline: Pipeline, lagging: list[PartitionPlan], cursor: Cursor) -> dg.RunRequest:
    """A used run key never runs again: the range and the try are in it."""
    low, high = min(p.partition for p in lagging), max(p.partition for p in lagging)
    ranges = ",".join(f"{p.partition}:{p.position}-{p.stable_end}" for p in lagging)
    config = {"ops": {pipeline.name: {"config": {"max_records": RECORDS_A_RUN}}}}
    return dg.RunRequest(
        run_key=f"{pipeline.name}/{ranges}/{cursor.tries}/{cursor.asked_at:.0f}",
        run_config=config,
        tags={RANGE_START: str(low), RANGE_END: str(high), "eos/try": str(cursor.tries)},
    )


def stuck(pipeline: Pipeline, plans: list[PartitionPlan], connection: Connection) -> None:
    """Nothing is readable, but more is there: somebody's open transaction holds the source back."""
    held = [plan for plan in plans if plan.high_watermark > plan.stable_end]
    if not held:
        return
    time.sleep(1)
    later = bounds(connection, pipeline.source.name)
    still = [p.partition for p in held if later[p.partition].stable == p.stable_end]
    if still and time.time() % (pipeline.transaction_timeout_ms / 1000) < SECONDS:
        raise GivenUp(f"An open transaction holds back {pipeline.source.name}, partitions {still}.")


def failed_checks(pipeline: Pipeline, checks: AssetJob) -> dg.SensorDefinition:
    """A failed check is evaluated again with back-off, then raised as given up."""
    keys = [dg.AssetCheckKey(sink_keys(pipeline)[0], name) for name in FACTS]

    @dg.sensor(
        name=f"{pipeline.name}_failed_checks",
        job=checks,
        minimum_interval_seconds=SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Evaluates the checks of {pipeline.name} again when one failed; gives up aloud.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor = Cursor.load(context.cursor)
        failed = failing(context.instance, keys)
        if not failed:
            return dg.SensorResult(skip_reason="No check has failed.", cursor=Cursor().dump())
        if active_runs(context.instance, checks.name):
            return dg.SensorResult(skip_reason="The checks are being evaluated.", cursor=cursor.dump())
        if cursor.tries >= TRIES:
            raise GivenUp(f"{', '.join(failed)} failed {TRIES} times: given up. Look at the counter-examples.")
        if (wait := cursor.waits(time.time())) > 0:
            return dg.SensorResult(skip_reason=f"The next try begins in {wait:.0f} s.", cursor=cursor.dump())
        cursor = Cursor({}, cursor.tries + 1, time.time())
        key = f"{pipeline.name}/checks/{cursor.tries}/{cursor.asked_at:.0f}"
        return dg.SensorResult(run_requests=[dg.RunRequest(run_key=key)], cursor=cursor.dump())

    return sensor


def failing(instance: dg.DagsterInstance, keys: list[dg.AssetCheckKey]) -> list[str]:
    """The checks whose last evaluation failed; warnings are not tried again."""
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    failed = []
    for key, record in records.items():
        event = record.event.dagster_event if record.event else None
        happened = event is not None and event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
        evaluation = event.asset_check_evaluation_data if event and happened else None
        if evaluation and not evaluation.passed and evaluation.severity == dg.AssetCheckSeverity.ERROR:
            failed.append(key.name)
    return sorted(failed)
