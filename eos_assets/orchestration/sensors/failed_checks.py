"""The sensor that requests a run when a check of the pipeline failed."""

import logging
import time

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.jobs import AssetJob
from eos_assets.orchestration.partitions import known_partitions
from eos_assets.orchestration.sensors.backoff import MAX_REQUESTS, Cursor, SensorAlert
from eos_assets.orchestration.sensors.check_status import load_check_status
from eos_assets.orchestration.sensors.runs import (
    INTERVAL_SECONDS,
    default_status,
    has_active_run,
    last_run_failed,
    rerun_request,
)

logger = logging.getLogger(__name__)

#: The name of the failed checks in the cursor.
CHECKS = "checks"


def failed_checks(pipeline: Pipeline, run: AssetJob, checks: AssetJob) -> dg.SensorDefinition:
    """Request a run with back-off, then raise an alert. A run evaluates the checks and, once they hold again, updates
    the tables downstream of them."""

    @dg.sensor(
        name=f"{pipeline.name}_failed_checks",
        job=run,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=default_status(),
        description=f"Runs {pipeline.name} again when one of its checks failed; after the last repetition it raises an "
        "alert.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        instance, cursor, now = context.instance, Cursor.load(context.cursor), time.time()
        status = load_check_status(instance, [pipeline], tables=True)
        if status.pending or any(has_active_run(instance, job.name) for job in (run, checks)):
            return dg.SensorResult(skip_reason="The checks are being evaluated.", cursor=cursor.dump())
        # The other sensor repeats a failed run, which evaluates the interrupted checks, too.
        interrupted = [] if last_run_failed(instance, run.name) else status.interrupted
        failed = sorted(status.failed + interrupted)
        partitions = [int(key) for key in known_partitions(instance, pipeline.source.name)]
        if not failed or not partitions:
            return dg.SensorResult(skip_reason="No check has failed.", cursor=Cursor().dump())
        made = cursor.at(CHECKS, 0)
        fields = {"pipeline": pipeline.name, "partitions": partitions, "checks": failed, "attempt": made.count + 1}
        if made.count >= MAX_REQUESTS:
            logger.error("Gave up on %s: checks failed: %s.", pipeline.name, ", ".join(failed), extra=fields)
            raise SensorAlert(
                f"Gave up on {pipeline.name} after {MAX_REQUESTS} runs: checks failed: {', '.join(failed)}. "
                "Check their counter-examples, then reset this sensor's cursor."
            )
        if made.delay(now) > 0:
            return dg.SensorResult(skip_reason="Waiting before the next request.", cursor=cursor.dump())
        made = made.next(now)
        logger.info("Requested a run of %s, because checks failed.", pipeline.name, extra=fields)
        request = rerun_request(pipeline, partitions, made.count, now)
        return dg.SensorResult(run_requests=[request], cursor=Cursor({CHECKS: made}).dump())

    return sensor
