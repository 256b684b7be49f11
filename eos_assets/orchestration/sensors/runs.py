"""What the sensors of a pipeline share: when they can evaluate it, and whether a run is active."""

import threading

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.platform.settings import Settings

ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

_connections: list[Connection] = []
_lock = threading.Lock()


def default_status() -> dg.DefaultSensorStatus:
    """Sensors are running by default, except in the profile of the tests."""
    tests = Settings.load().profile == "test"
    return dg.DefaultSensorStatus.STOPPED if tests else dg.DefaultSensorStatus.RUNNING


def connect(kafka: KafkaResource) -> Connection:
    """The connection of an earlier tick in this process to the same cluster, whose clients are still connected, else a
    new one."""
    connection = kafka.connection()
    with _lock:
        known = next((earlier for earlier in _connections if earlier == connection), None)
        if known is None:
            _connections.append(connection)
    return known or connection


def missing_topics(pipeline: Pipeline, connection: Connection) -> str:
    """Why a sensor cannot evaluate a pipeline yet; empty if it can."""
    existing = connection.metadata().topics
    needed = [pipeline.source.name, *(topic.name for topic in pipeline.own_topics())]
    missing = [name for name in needed if name not in existing]
    return f"These topics do not exist yet: {', '.join(missing)}. Run `eos topics create`." if missing else ""


def has_active_run(instance: dg.DagsterInstance, job: str) -> bool:
    return bool(instance.get_run_ids(dg.RunsFilter(job_name=job, statuses=ACTIVE), limit=1))
