"""Sensors: new records bring a run, failures bring another one with back-off, then are given up aloud."""

import time
from collections.abc import Sequence
from dataclasses import replace

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds
from eos_assets.orchestration.assets.source_topic import observed
from eos_assets.orchestration.evaluations import last_evaluations
from eos_assets.orchestration.jobs import AssetJob
from eos_assets.orchestration.partitions import known_keys, missing_keys, range_tags
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.tries import TRIES, Cursor, GivenUp, Tries
from eos_assets.platform.settings import Settings
from eos_assets.run.plan import PartitionPlan, make_plan
from eos_assets.verify import checkpoint as proven

SECONDS = 5
#: At most so many offsets of each partition in one run; the next tick asks for the next ones.
RECORDS_A_RUN = 5_000_000
ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
#: What is remembered beside the partitions.
FAILED_RUN = "failed run"


def default_status() -> dg.DefaultSensorStatus:
    """In the profile of tests nothing runs that nobody asked for."""
    tests = Settings.load().profile == "test"
    return dg.DefaultSensorStatus.STOPPED if tests else dg.DefaultSensorStatus.RUNNING


def new_records(pipeline: Pipeline, job: AssetJob, upstream: Sequence[Pipeline] = ()) -> dg.SensorDefinition:
    """One run over the smallest range of partitions that covers the lagging ones, one at a time, and none on what a
    pipeline upstream wrote and could not prove."""

    @dg.sensor(
        name=f"{pipeline.name}_new_records",
        job=job,
        minimum_interval_seconds=SECONDS,
        default_status=default_status(),
        description=f"Runs {pipeline.name} when {pipeline.source.name} has new records; repeats with back-off, then "
        "gives up aloud.",
    )
    def sensor(context: dg.SensorEvaluationContext, kafka: KafkaResource) -> dg.SensorResult | dg.SkipReason:
        connection = kafka.connection()
        if missing := missing_topics(pipeline, connection):
            return dg.SkipReason(missing)
        grown = missing_keys(context.instance, pipeline.source.name, connection)
        requests = [topic_requests(pipeline, grown)] if grown else []
        cursor, now = Cursor.load(context.cursor), time.time()
        under_way = "A run is under way." if active_runs(context.instance, job.name) else ""
        if reason := under_way or failed_upstream(context.instance, upstream):
            return dg.SensorResult(skip_reason=reason, cursor=cursor.dump(), dynamic_partitions_requests=requests)
        everything = make_plan(pipeline, connection)
        plans = proven_part(pipeline, upstream, everything, connection)
        known = {str(p.partition): cursor.of(str(p.partition), p.position) for p in plans if p.lag}
        due = [p for p in plans if p.lag and ready(known[str(p.partition)], now)]
        for plan in due:
            known[str(plan.partition)] = known[str(plan.partition)].again(now)
        cursor = Cursor({**known, **cursor.only(FAILED_RUN)})
        given_up = [name for name, tries in known.items() if tries.count >= TRIES and tries.wait(now) <= 0]
        if not due and given_up:
            told = f"{pipeline.name} was run {TRIES} times and partitions {', '.join(given_up)} did not move: given up."
            raise GivenUp(f"{told} Look at the last runs, then reset this sensor's cursor.")
        repeats = [] if known else repeat_failed(context.instance, pipeline, job.name, plans, cursor, now)
        if not due and not repeats:
            reason = "Nothing new." if plans == everything else "Waiting until what is new is proven upstream."
            reason = "Waiting before the next try." if known or FAILED_RUN in cursor.tries else reason
            return dg.SensorResult(skip_reason=reason, cursor=cursor.dump(), dynamic_partitions_requests=requests)
        return dg.SensorResult(
            run_requests=repeats or [request(pipeline, due, known, now, bounded=bool(upstream))],
            asset_events=[] if upstream else [observation(context.instance, pipeline, everything)],
            cursor=cursor.dump(),
            dynamic_partitions_requests=requests,
        )

    return sensor


def missing_topics(pipeline: Pipeline, connection: Connection) -> str:
    """Why nothing can be said of a pipeline yet, if so."""
    existing = connection.metadata().topics
    needed = [pipeline.source.name, *(topic.name for topic in pipeline.own_topics())]
    missing = [name for name in needed if name not in existing]
    return f"These topics do not exist yet: {', '.join(missing)} (`eos topics create`)." if missing else ""


def proven_part(
    pipeline: Pipeline, upstream: Sequence[Pipeline], plans: list[PartitionPlan], connection: Connection
) -> list[PartitionPlan]:
    """The plans, ended where the proofs of the pipelines end that write the source: bad data must not go on, and what
    is not proven yet comes next time."""
    places = [(pipeline.source.name, plan.partition) for plan in plans]
    marks = [proven.load(connection, writer.names(), places) for writer in upstream]
    if not marks:
        return plans
    ends = {partition: min(mark.get((topic, partition), 0) for mark in marks) for topic, partition in places}
    return [replace(p, stable_end=min(p.stable_end, max(p.position, ends[p.partition]))) for p in plans]


def failed_upstream(instance: dg.DagsterInstance, upstream: Sequence[Pipeline]) -> str:
    """Why the source must not be read now, if so."""
    failed = last_evaluations(instance, upstream).failed
    names = ", ".join(pipeline.name for pipeline in upstream)
    return f"Held back: {', '.join(failed)} failed in {names}, and bad data must not go on." if failed else ""


def repeat_failed(
    instance: dg.DagsterInstance, pipeline: Pipeline, job: str, plans: list[PartitionPlan], cursor: Cursor, now: float
) -> list[dg.RunRequest]:
    """Nothing lags, but the last run failed behind its commit, so that checks or tables lack something: once more, all
    partitions. To materialize what is there already is harmless. Failed checks have a sensor of their own."""
    if not last_failed(instance, job) or last_evaluations(instance, [pipeline]).failed:
        cursor.tries.pop(FAILED_RUN, None)
        return []
    tries = cursor.of(FAILED_RUN, sum(plan.position for plan in plans))
    if not ready(tries, now):
        if tries.wait(now) <= 0:
            raise GivenUp(f"{pipeline.name} was run {TRIES} times and failed: given up. Look at the last runs.")
        return []
    cursor.tries[FAILED_RUN] = tries = tries.again(now)
    return [whole_request(pipeline, [plan.partition for plan in plans], tries, now)]


def last_failed(instance: dg.DagsterInstance, job: str) -> bool:
    return any(
        run.status == dg.DagsterRunStatus.FAILURE for run in instance.get_runs(dg.RunsFilter(job_name=job), limit=1)
    )


def whole_request(pipeline: Pipeline, partitions: list[int], tries: Tries, now: float) -> dg.RunRequest:
    """All partitions once more, and nothing new: new records have a sensor of their own."""
    return dg.RunRequest(
        run_key=f"{pipeline.name}/again/{tries.count}/{now:.3f}",
        run_config=run_config(pipeline, max_records=0),
        tags={**range_tags(min(partitions), max(partitions)), "eos/try": str(tries.count)},
    )


def run_config(pipeline: Pipeline, **chosen: object) -> dict[str, object]:
    return {"ops": {pipeline.name: {"config": chosen}}}


def ready(tries: Tries, now: float) -> bool:
    return tries.count < TRIES and tries.wait(now) <= 0


def observation(instance: dg.DagsterInstance, pipeline: Pipeline, plans: list[PartitionPlan]) -> dg.AssetObservation:
    """What the sensor saw of the source, so that the graph shows it without a click."""
    found = {p.partition: Bounds(p.log_start, p.stable_end, p.high_watermark) for p in plans}
    lag = {f"lag_{pipeline.name}": sum(plan.lag for plan in plans)}
    topic = pipeline.source.name
    return dg.AssetObservation(topic, metadata={**observed(instance, topic, found), **lag})


def topic_requests(pipeline: Pipeline, keys: list[str]) -> dg.AddDynamicPartitionsRequest:
    return dg.AddDynamicPartitionsRequest(f"{pipeline.source.name}_partitions", keys)


def active_runs(instance: dg.DagsterInstance, job_name: str) -> bool:
    return bool(instance.get_run_ids(dg.RunsFilter(job_name=job_name, statuses=ACTIVE), limit=1))


def request(
    pipeline: Pipeline, due: list[PartitionPlan], known: dict[str, Tries], now: float, *, bounded: bool
) -> dg.RunRequest:
    """A used run key never runs again: the range and the try are in it."""
    low, high = min(p.partition for p in due), max(p.partition for p in due)
    ranges = ",".join(f"{p.partition}:{p.position}-{p.stable_end}" for p in due)
    tries = max(known[str(p.partition)].count for p in due)
    upto = {"upto": {str(p.partition): p.stable_end for p in due}} if bounded else {}
    return dg.RunRequest(
        run_key=f"{pipeline.name}/{ranges}/{tries}/{now:.3f}",
        run_config=run_config(pipeline, max_records=RECORDS_A_RUN, **upto),
        tags={**range_tags(low, high), "eos/try": str(tries)},
    )


def failed_checks(pipeline: Pipeline, run: AssetJob, checks: AssetJob) -> dg.SensorDefinition:
    """A failed check brings another run, with back-off, then is raised as given up. A run, and not only the checks:
    when they hold again, the tables behind them must follow."""

    @dg.sensor(
        name=f"{pipeline.name}_failed_checks",
        job=run,
        minimum_interval_seconds=SECONDS,
        default_status=default_status(),
        description=f"Runs {pipeline.name} again when one of its checks failed; gives up aloud.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        instance, cursor, now = context.instance, Cursor.load(context.cursor), time.time()
        found = last_evaluations(instance, [pipeline], tables=True)
        if found.awaited or any(active_runs(instance, job.name) for job in (run, checks)):
            return dg.SensorResult(skip_reason="The checks are being evaluated.", cursor=cursor.dump())
        lost = [] if last_failed(instance, run.name) else found.lost  # a failed run is the other sensor's
        failed = sorted(found.failed + lost)
        partitions = [int(key) for key in known_keys(instance, pipeline.source.name)]
        if not failed or not partitions:
            return dg.SensorResult(skip_reason="No check has failed.", cursor=Cursor().dump())
        tries = cursor.of("checks", 0)
        if tries.count >= TRIES:
            raise GivenUp(f"{', '.join(failed)} failed {TRIES} times: given up. Look at the counter-examples.")
        if tries.wait(now) > 0:
            return dg.SensorResult(skip_reason="Waiting before the next try.", cursor=cursor.dump())
        tries = tries.again(now)
        request = whole_request(pipeline, partitions, tries, now)
        return dg.SensorResult(run_requests=[request], cursor=Cursor({"checks": tries}).dump())

    return sensor
