"""The sensors that send alerts of failed runs and failed checks to the user's channel."""

import json
from collections.abc import Sequence

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.alerts import Alert, channel, deliver
from eos_assets.orchestration.jobs import AssetJob
from eos_assets.orchestration.sensors.check_status import FailedCheck, load_check_status
from eos_assets.orchestration.sensors.runs import default_status

INTERVAL_SECONDS = 15
NO_CHANNEL = "No channel is set: EOS_ALERTS."
WILL_RETRY = "dagster/will_retry"


def alert_status() -> dg.DefaultSensorStatus:
    """Without a channel the sensors are stopped."""
    return default_status() if channel() else dg.DefaultSensorStatus.STOPPED


def run_alerts(pipeline: Pipeline, jobs: Sequence[AssetJob]) -> dg.SensorDefinition:
    """Send an alert for each failed run of these jobs."""

    @dg.run_failure_sensor(
        name=f"{pipeline.name}_run_alerts",
        monitored_jobs=list(jobs),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=alert_status(),
        description=f"Sends an alert for each failed run of {pipeline.name} to the channel of EOS_ALERTS.",
    )
    def sensor(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        send = channel()
        if send is None:
            return dg.SkipReason(NO_CHANNEL)
        deliver(send, alert_of_run(pipeline, context.dagster_run, context.failure_event.message or "no reason"))
        return None

    return sensor


def alert_of_run(pipeline: Pipeline, run: dg.DagsterRun, reason: str) -> Alert:
    repeated = run.tags.get(WILL_RETRY) == "true"
    ending = " Dagster repeats it." if repeated else ""
    text = f"{pipeline.name}: run {run.run_id[:8]} of {run.job_name} failed: {reason.strip().rstrip('.')}.{ending}"
    return Alert("run_failed", pipeline.name, text, run=run.run_id, will_be_repeated=repeated)


def check_alerts(pipeline: Pipeline) -> dg.SensorDefinition:
    """Send an alert when a check begins to fail, and again when its finding changes. The cursor has those sent."""

    @dg.sensor(
        name=f"{pipeline.name}_check_alerts",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=alert_status(),
        description=f"Sends an alert for each failed check of {pipeline.name} to the channel of EOS_ALERTS.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        send = channel()
        if send is None:
            return dg.SkipReason(NO_CHANNEL)
        status = load_check_status(context.instance, [pipeline], tables=True)
        sent: dict[str, str] = json.loads(context.cursor) if context.cursor else {}
        kept = {name: detail for name, detail in sent.items() if name in status.pending}
        for check in status.failed:
            if sent.get(check.name) == check.detail or deliver(send, alert_of_check(pipeline, check)):
                kept[check.name] = check.detail
        return dg.SensorResult(skip_reason=f"{len(status.failed)} checks fail.", cursor=json.dumps(kept))

    return sensor


def alert_of_check(pipeline: Pipeline, check: FailedCheck) -> Alert:
    text = f"{pipeline.name}: check {check}. Run `eos verify {pipeline.name} --full`."
    return Alert("check_failed", pipeline.name, text, check=check.name, partitions=check.partitions)
