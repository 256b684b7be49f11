"""The sensor that requests an update of the audit tables, separate from the runs and at most once a minute."""

import json
import time
from dataclasses import dataclass, field

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import stable_ends
from eos_assets.orchestration.jobs import AssetJob
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.sensors.check_status import load_check_status
from eos_assets.orchestration.sensors.runs import connect, default_status, has_active_run, missing_topics
from eos_assets.verify import checkpoint

INTERVAL_SECONDS = 10
#: An update costs some Spark jobs, whether it adds one transaction or a thousand.
UPDATE_SECONDS = 60.0

#: Ledger partition → its last stable offset.
LedgerEnds = dict[int, int]


@dataclass(frozen=True)
class AuditCursor:
    """The ledger at the last requested update, and when that was."""

    ends: LedgerEnds = field(default_factory=dict)
    requested_at: float = 0.0

    @staticmethod
    def load(text: str | None) -> "AuditCursor":
        if not text:
            return AuditCursor()
        content = json.loads(text)
        return AuditCursor({int(p): end for p, end in content["ends"].items()}, content["requested_at"])

    def dump(self) -> str:
        return json.dumps({"ends": self.ends, "requested_at": self.requested_at})


def audit_update(pipeline: Pipeline, job: AssetJob) -> dg.SensorDefinition:
    """Request an update once the ledger has moved and what it holds is proven."""
    ledger = pipeline.names().ledger

    @dg.sensor(
        name=f"{pipeline.name}_audit",
        job=job,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=default_status(),
        description=f"Updates the audit tables of {pipeline.name} when transactions were committed and proven, at most "
        f"every {UPDATE_SECONDS:.0f} s.",
    )
    def sensor(context: dg.SensorEvaluationContext, kafka: KafkaResource) -> dg.SensorResult | dg.SkipReason:
        cursor, now = AuditCursor.load(context.cursor), time.time()
        if now - cursor.requested_at < UPDATE_SECONDS or has_active_run(context.instance, job.name):
            return dg.SkipReason("The tables were updated a moment ago.")
        connection = connect(kafka)
        if missing := missing_topics(pipeline, connection):
            return dg.SkipReason(missing)
        ends = stable_ends(connection, ledger, connection.partitions(ledger))
        if ends == cursor.ends or not any(ends.values()):
            return dg.SkipReason("Nothing was committed since the last update.")
        if failed := load_check_status(context.instance, [pipeline]).blocking:
            return dg.SkipReason(f"Held back, because checks failed: {', '.join(failed)}.")
        if not is_proven(pipeline, connection, ends):
            return dg.SkipReason("Waiting until what was committed is proven.")
        request = dg.RunRequest(run_key=f"{pipeline.name}/audit/{now:.3f}")
        return dg.SensorResult(run_requests=[request], cursor=AuditCursor(ends, now).dump())

    return sensor


def is_proven(pipeline: Pipeline, connection: Connection, ends: LedgerEnds) -> bool:
    """Whether the last proof covers the ledger up to these offsets."""
    names = pipeline.names()
    proven = checkpoint.load(connection, names, [(names.ledger, p) for p in ends])
    return all(proven.get((names.ledger, p), 0) >= end for p, end in ends.items())
