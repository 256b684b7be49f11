"""Alerts reach the user's channel once, and a channel that fails breaks nothing and betrays no secret."""

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import dagster as dg
import pytest

from eos_assets.errors import EosError
from eos_assets.orchestration import alerts
from eos_assets.orchestration.alerts import Alert, channel, deliver
from eos_assets.orchestration.sensors.alerts import NO_CHANNEL, check_alerts, run_alerts
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.settings import SETTINGS, Settings
from eos_assets_tests.orchestration.sensors.test_failed_checks import PIPELINE, report

SECRET = "canary-of-the-webhook"
received: list[Alert] = []


class Webhook(HTTPServer):
    """A server that keeps what it receives, and answers with a status."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, object]] = []
        self.status = 200
        super().__init__((LOOPBACK, 0), Receiver)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/{SECRET}"


class Receiver(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with Webhook() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("EOS_ALERTS", server.url)
        yield server
        server.shutdown()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def keep(alert: Alert) -> None:
    received.append(alert)


def tick_checks(instance: dg.DagsterInstance, cursor: str | None = None) -> str | None:
    """One tick of the sensor of checks, and its new cursor."""
    result = check_alerts(PIPELINE)(dg.build_sensor_context(instance=instance, cursor=cursor))
    assert isinstance(result, dg.SensorResult)
    return result.cursor


@dg.op
def fails() -> None:
    raise ValueError("no space left")


@dg.job
def failing() -> None:
    fails()


def tick_run(instance: dg.DagsterInstance, **tags: str) -> object:
    """Fail a run, and let the sensor of runs see it."""
    result = failing.execute_in_process(instance=instance, raise_on_error=False, tags=tags)
    event = result.get_run_failure_event()
    context = dg.build_run_status_sensor_context("sensor", event, instance, result.dagster_run)
    return run_alerts(PIPELINE, [failing])(context.for_run_failure())


def test_a_failed_run_is_sent_to_the_webhook(instance: dg.DagsterInstance, webhook: Webhook) -> None:
    tick_run(instance, **{"dagster/will_retry": "true"})
    (body,) = webhook.bodies
    run = str(body["run"])
    assert (body["kind"], body["pipeline"], body["will_be_repeated"]) == ("run_failed", "alerted", True)
    assert str(body["text"]).startswith(f"alerted: run {run[:8]} of failing failed: ")
    assert instance.get_run_by_id(run) is not None


def test_a_failed_check_is_sent_once_until_it_passes(instance: dg.DagsterInstance, webhook: Webhook) -> None:
    cursor = tick_checks(instance)
    assert webhook.bodies == []
    report(instance, passed=False)
    for _ in range(3):
        cursor = tick_checks(instance, cursor)
    (body,) = webhook.bodies
    assert (body["kind"], body["check"], body["partitions"]) == ("check_failed", "none_invented", [0, 1])
    assert "1 records without an origin (for example sink_offset=7)" in str(body["text"])
    report(instance, passed=True)
    cursor = tick_checks(instance, cursor)
    report(instance, passed=False)
    tick_checks(instance, cursor)
    assert len(webhook.bodies) == 2


def test_a_channel_that_fails_is_logged_without_its_secret_and_the_alert_is_sent_later(
    instance: dg.DagsterInstance, webhook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    webhook.status = 500
    report(instance, passed=False)
    cursor = tick_checks(instance)
    assert "could not be sent: the webhook answered with status 500" in caplog.text
    webhook.status = 200
    tick_checks(instance, cursor)
    assert len(webhook.bodies) == 2
    assert tick_run(instance) is None
    assert not deliver(alerts.webhook(f"http://{LOOPBACK}:1/{SECRET}"), Alert("run_failed", "p", "it failed"))
    assert "the webhook cannot be reached (ConnectionRefusedError)" in caplog.text
    assert not deliver(alerts.function(f"no.module.{SECRET}:send"), Alert("run_failed", "p", "it failed"))
    assert "the channel raised ModuleNotFoundError" in caplog.text
    assert SECRET not in caplog.text


def test_a_function_of_the_user_receives_the_alert(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EOS_ALERTS", f"{__name__}:keep")
    received.clear()
    report(instance, passed=False)
    tick_checks(instance)
    assert [(alert.pipeline, alert.check) for alert in received] == [("alerted", "none_invented")]


def test_nothing_is_sent_by_default(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EOS_ALERTS", raising=False)
    monkeypatch.setenv("EOS_PROFILE", "dev")
    assert channel() is None
    for sensor in (check_alerts(PIPELINE), run_alerts(PIPELINE, [failing])):
        assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
    skipped = check_alerts(PIPELINE)(dg.build_sensor_context(instance=instance))
    assert isinstance(skipped, dg.SkipReason)
    assert skipped.skip_message == NO_CHANNEL
    monkeypatch.setenv("EOS_ALERTS", "https://example.com/hook")
    assert check_alerts(PIPELINE).default_status is dg.DefaultSensorStatus.RUNNING


def test_a_channel_that_is_neither_is_refused_without_being_shown() -> None:
    for wrong in (SECRET, "ftp://example.com", "https://", "module.function", "module:"):
        with pytest.raises(EosError, match="EOS_ALERTS is neither a function nor the URL of a webhook") as error:
            Settings.load({"EOS_ALERTS": wrong})
        assert SECRET not in str(error.value)
    settings = Settings.load({"EOS_ALERTS": f"https://example.com/{SECRET}"})
    assert SECRET not in repr(settings)
    assert next(setting for setting in SETTINGS if setting.name == "EOS_ALERTS").secret
