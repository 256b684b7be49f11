"""The sensor that raises an alert while a check of the pipeline does not hold."""

import logging

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.checks import AUDIT_CHECK
from eos_assets.orchestration.jobs import AssetJob
from eos_assets.orchestration.sensors.backoff import SensorAlert
from eos_assets.orchestration.sensors.check_status import CheckStatus, load_check_status
from eos_assets.orchestration.sensors.runs import default_status

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 15


def failed_checks(pipeline: Pipeline, checks: AssetJob) -> dg.SensorDefinition:
    """Raise an alert at each tick until the checks hold. Another run would not repair what is already committed."""

    @dg.sensor(
        name=f"{pipeline.name}_failed_checks",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=default_status(),
        description=f"Raises an alert while a check of {pipeline.name} fails; requests no run.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        status = load_check_status(context.instance, [pipeline], tables=True)
        if status.pending:
            return dg.SkipReason("The checks are being evaluated.")
        if problem := describe(status):
            names = [*(check.name for check in status.failed), *status.interrupted]
            logger.error("%s: %s", pipeline.name, problem, extra={"pipeline": pipeline.name, "checks": names})
            raise SensorAlert(f"{pipeline.name}: {problem} {remedy(pipeline, status, checks.name)}")
        return dg.SkipReason("No check has failed.")

    return sensor


def describe(status: CheckStatus) -> str:
    """The checks that failed or were not evaluated; empty if there are none."""
    sentences = []
    if status.failed:
        partitions = sorted({partition for check in status.failed for partition in check.partitions})
        place = f" in partitions {', '.join(map(str, partitions))}" if partitions else ""
        sentences.append(f"Checks failed{place}: {'; '.join(map(str, status.failed))}.")
    if status.interrupted:
        runs = ", ".join(sorted({run[:8] for run in status.interrupted.values()}))
        sentences.append(f"Checks were not evaluated before run {runs} ended: {', '.join(status.interrupted)}.")
    return " ".join(sentences)


def remedy(pipeline: Pipeline, status: CheckStatus, job: str) -> str:
    """The next commands, and how the alert ends."""
    failed = {check.name for check in status.failed}
    commands = []
    if failed - {AUDIT_CHECK}:
        commands.append(
            f"Another run does not repair what is committed. Run `eos verify {pipeline.name} --full` and follow a "
            "counter-example with `eos trace`."
        )
    if AUDIT_CHECK in failed:
        commands.append(f"Write the audit tables again with `eos audit {pipeline.name} --rebuild`.")
    return " ".join([*commands, f"Launch the job {job}: the alert ends once its checks pass."])
