"""The community's OpenLineage sensor sends the assets of a pipeline, as docs/platform.md says."""

import threading
from typing import Any, cast

import dagster as dg
import pytest
from dagster_openlineage import openlineage_sensor, sensor
from dagster_openlineage.adapter import OpenLineageAdapter

from eos_assets.platform.loopback import LOOPBACK
from eos_assets_tests.orchestration.sensors.test_alerts import Webhook


@pytest.mark.filterwarnings("ignore")
def test_a_materialization_reaches_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    @dg.asset(key="datasink")
    def written() -> dg.MaterializeResult[None]:
        return dg.MaterializeResult(metadata={"records_out": 3})

    with Webhook() as backend, dg.DagsterInstance.ephemeral() as instance:
        threading.Thread(target=backend.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://{LOOPBACK}:{backend.server_port}")
        monkeypatch.setattr(sensor, "_ADAPTER", OpenLineageAdapter())  # it reads the address when it is made
        dg.materialize([written], instance=instance)
        list(openlineage_sensor(include_asset_events=True)(dg.build_sensor_context(instance=instance)))
        backend.shutdown()
    events = cast(list[dict[str, Any]], backend.bodies)
    completed = [event for event in events if event["eventType"] == "COMPLETE" and event["outputs"]]
    assert [[output["name"] for output in event["outputs"]] for event in completed] == [["datasink"]]
