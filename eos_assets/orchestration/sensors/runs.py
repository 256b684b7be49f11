"""Runs as the sensors see them: whether one is active, whether the last one failed, and the request for another."""

from collections.abc import Collection

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.orchestration.partitions import range_tags
from eos_assets.platform.settings import Settings

INTERVAL_SECONDS = 5
ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def default_status() -> dg.DefaultSensorStatus:
    """Sensors are running by default, except in the profile of the tests."""
    tests = Settings.load().profile == "test"
    return dg.DefaultSensorStatus.STOPPED if tests else dg.DefaultSensorStatus.RUNNING


def missing_topics(pipeline: Pipeline, connection: Connection) -> str:
    """Why a sensor cannot evaluate a pipeline yet; empty if it can."""
    existing = connection.metadata().topics
    needed = [pipeline.source.name, *(topic.name for topic in pipeline.own_topics())]
    missing = [name for name in needed if name not in existing]
    return f"These topics do not exist yet: {', '.join(missing)}. Run `eos topics create`." if missing else ""


def has_active_run(instance: dg.DagsterInstance, job: str) -> bool:
    return bool(instance.get_run_ids(dg.RunsFilter(job_name=job, statuses=ACTIVE), limit=1))


def last_run_failed(instance: dg.DagsterInstance, job: str) -> bool:
    runs = instance.get_runs(dg.RunsFilter(job_name=job), limit=1)
    return any(run.status == dg.DagsterRunStatus.FAILURE for run in runs)


def run_request(
    pipeline: Pipeline, reason: str, partitions: Collection[int], attempt: int, now: float, **config: object
) -> dg.RunRequest:
    """Request a run over the smallest range that covers these partitions.

    A run key that was used never runs again, so it contains the reason, the attempt and the time.
    """
    return dg.RunRequest(
        run_key=f"{pipeline.name}/{reason}/{attempt}/{now:.3f}",
        run_config={"ops": {pipeline.name: {"config": config}}},
        tags={**range_tags(min(partitions), max(partitions)), "eos/try": str(attempt)},
    )


def rerun_request(pipeline: Pipeline, partitions: Collection[int], attempt: int, now: float) -> dg.RunRequest:
    """Request another run over all partitions that reads no new records, because those have a sensor of their own."""
    return run_request(pipeline, "again", partitions, attempt, now, max_records=0)
