"""When the sensor of the audit tables requests an update. Kafka's answers are given, so no server is needed."""

from collections.abc import Callable

import dagster as dg
import pytest

from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.kafka.connection import Connection
from eos_assets.orchestration.assets.audit_tables import audit_tables
from eos_assets.orchestration.jobs import audit_job
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.sensors import audit_update
from eos_assets_tests.run.lab import squared

PIPELINE = Pipeline("audited", Topic("arrivals"), (Topic("departures"),), squared, version="1")
Tick = Callable[..., dg.SensorResult | dg.SkipReason]


@pytest.fixture
def tick(monkeypatch: pytest.MonkeyPatch) -> Tick:
    """One tick with these last stable offsets of the ledger, which are proven or not."""
    sensor = audit_update.audit_update(PIPELINE, audit_job(PIPELINE, audit_tables(PIPELINE)))
    monkeypatch.setattr(audit_update, "missing_topics", lambda *_: "")
    monkeypatch.setattr(Connection, "partitions", lambda *_: [0, 1])

    def evaluate(ends: dict[int, int], cursor: str | None = None, *, proven: bool = True) -> object:
        monkeypatch.setattr(audit_update, "stable_ends", lambda *_: ends)
        monkeypatch.setattr(audit_update, "is_proven", lambda *_: proven)
        with dg.DagsterInstance.ephemeral() as instance:
            kafka = KafkaResource(bootstrap_servers="none:1")
            return sensor(dg.build_sensor_context(instance=instance, cursor=cursor, resources={"kafka": kafka}))

    return evaluate  # type: ignore[return-value]


def test_an_update_is_requested_once_for_what_was_committed_and_proven(tick: Tick) -> None:
    assert isinstance(tick({0: 0, 1: 0}), dg.SkipReason), "the ledger is empty"
    assert isinstance(tick({0: 3, 1: 0}, proven=False), dg.SkipReason)
    requested = tick({0: 3, 1: 0})
    assert isinstance(requested, dg.SensorResult)
    assert len(requested.run_requests or []) == 1
    later = audit_update.AuditCursor.load(requested.cursor)
    hour_ago = audit_update.AuditCursor(later.ends, later.requested_at - 3600).dump()
    assert isinstance(tick({0: 3, 1: 0}, hour_ago), dg.SkipReason), "nothing was committed since"
    assert isinstance(tick({0: 5, 1: 0}, hour_ago), dg.SensorResult)


def test_updates_are_a_minute_apart(tick: Tick) -> None:
    requested = tick({0: 3, 1: 0})
    assert isinstance(requested, dg.SensorResult)
    waiting = tick({0: 9, 1: 9}, requested.cursor)
    assert isinstance(waiting, dg.SkipReason)
    assert "a moment ago" in str(waiting.skip_message)
