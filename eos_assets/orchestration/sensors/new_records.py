"""The sensor that requests a run when the source has new records."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds
from eos_assets.orchestration.assets.source_topic import observation_metadata
from eos_assets.orchestration.jobs import AssetJob
from eos_assets.orchestration.partitions import new_partitions
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.sensors.backoff import MAX_REQUESTS, Cursor, SensorAlert
from eos_assets.orchestration.sensors.check_status import load_check_status
from eos_assets.orchestration.sensors.runs import (
    INTERVAL_SECONDS,
    default_status,
    has_active_run,
    last_run_failed,
    missing_topics,
    rerun_request,
    run_request,
)
from eos_assets.run.plan import PartitionPlan, make_plan
from eos_assets.verify import checkpoint

logger = logging.getLogger(__name__)

#: The offsets of each partition that one run reads at most; the next tick requests the following ones.
RECORDS_PER_RUN = 5_000_000
#: The name of the failed run in the cursor, beside the partitions.
FAILED_RUN = "failed run"


def new_records(pipeline: Pipeline, job: AssetJob, upstream: Sequence[Pipeline] = ()) -> dg.SensorDefinition:
    """Request one run at a time, over the lagging partitions, and only on records that are proven upstream."""

    @dg.sensor(
        name=f"{pipeline.name}_new_records",
        job=job,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=default_status(),
        description=f"Runs {pipeline.name} when {pipeline.source.name} has new records. A failed run is repeated with "
        "back-off; after the last repetition the sensor raises an alert.",
    )
    def sensor(context: dg.SensorEvaluationContext, kafka: KafkaResource) -> dg.SensorResult | dg.SkipReason:
        connection = kafka.connection()
        if missing := missing_topics(pipeline, connection):
            return dg.SkipReason(missing)
        return Tick(context, connection, pipeline, job.name, upstream).evaluate()

    return sensor


class Tick:
    """One evaluation of the sensor."""

    def __init__(
        self,
        context: dg.SensorEvaluationContext,
        connection: Connection,
        pipeline: Pipeline,
        job: str,
        upstream: Sequence[Pipeline],
    ) -> None:
        self.instance = context.instance
        self.connection = connection
        self.pipeline = pipeline
        self.job = job
        self.upstream = upstream
        self.cursor = Cursor.load(context.cursor)
        self.now = time.time()
        keys = new_partitions(self.instance, pipeline.source.name, connection)
        name = f"{pipeline.source.name}_partitions"
        self.partition_requests = [dg.AddDynamicPartitionsRequest(name, keys)] if keys else []

    def evaluate(self) -> dg.SensorResult:
        if has_active_run(self.instance, self.job):
            return self.skip("A run is active.")
        if refusal := self.refuse_upstream():
            return self.skip(refusal)
        plans = make_plan(self.pipeline, self.connection)
        proven = self.limit_to_proof(plans)
        lagging = [plan for plan in proven if plan.lag]
        request = self.request_run(lagging) if lagging else self.repeat_failed_run(proven)
        if request:
            return dg.SensorResult(
                run_requests=[request],
                asset_events=[] if self.upstream else [self.observation(plans)],
                cursor=self.cursor.dump(),
                dynamic_partitions_requests=self.partition_requests,
            )
        if self.cursor.requests:
            return self.skip("Waiting before the next request.")
        return self.skip("No new records." if proven == plans else "Waiting until the new records are proven upstream.")

    def skip(self, reason: str) -> dg.SensorResult:
        return dg.SensorResult(
            skip_reason=reason,
            cursor=self.cursor.dump(),
            dynamic_partitions_requests=self.partition_requests,
        )

    def refuse_upstream(self) -> str:
        """Refuse to read what failed its checks upstream, and return the reason; empty if all checks hold."""
        failed = load_check_status(self.instance, self.upstream).failed
        if not failed:
            return ""
        logger.warning(
            "%s was not run, because checks failed upstream: %s.",
            self.pipeline.name,
            ", ".join(failed),
            extra={"pipeline": self.pipeline.name, "checks": failed},
        )
        names = ", ".join(pipeline.name for pipeline in self.upstream)
        return f"Held back, because checks failed in {names}: {', '.join(failed)}."

    def limit_to_proof(self, plans: list[PartitionPlan]) -> list[PartitionPlan]:
        """End each plan at the position up to which the pipelines that write the source are proven."""
        places = [(self.pipeline.source.name, plan.partition) for plan in plans]
        checkpoints = [checkpoint.load(self.connection, writer.names(), places) for writer in self.upstream]
        if not checkpoints:
            return plans
        ends = {place[1]: min(proven.get(place, 0) for proven in checkpoints) for place in places}
        return [replace(p, stable_end=min(p.stable_end, max(p.position, ends[p.partition]))) for p in plans]

    def request_run(self, lagging: list[PartitionPlan]) -> dg.RunRequest | None:
        """Request a run over the lagging partitions whose delay is over."""
        requests = {str(plan.partition): self.cursor.at(str(plan.partition), plan.position) for plan in lagging}
        due = [plan for plan in lagging if requests[str(plan.partition)].due(self.now)]
        exhausted = [plan.partition for plan in lagging if requests[str(plan.partition)].exhausted(self.now)]
        if exhausted and not due:
            raise self.alert(exhausted, f"partitions {', '.join(map(str, exhausted))} did not advance")
        requests |= {str(plan.partition): requests[str(plan.partition)].next(self.now) for plan in due}
        failed_run = {name: made for name, made in self.cursor.requests.items() if name == FAILED_RUN}
        self.cursor = Cursor({**requests, **failed_run})
        if not due:
            return None
        attempt = max(requests[str(plan.partition)].count for plan in due)
        ranges = ",".join(f"{plan.partition}:{plan.position}-{plan.stable_end}" for plan in due)
        upto = {"upto": {str(plan.partition): plan.stable_end for plan in due}} if self.upstream else {}
        partitions = [plan.partition for plan in due]
        self.log_request(partitions, attempt)
        return run_request(self.pipeline, ranges, partitions, attempt, self.now, max_records=RECORDS_PER_RUN, **upto)

    def repeat_failed_run(self, plans: list[PartitionPlan]) -> dg.RunRequest | None:
        """Request the last run again if it failed after its commits, before it evaluated the checks or updated the
        tables. Failed checks have a sensor of their own."""
        if not last_run_failed(self.instance, self.job) or load_check_status(self.instance, [self.pipeline]).failed:
            self.cursor = Cursor()
            return None
        made = self.cursor.at(FAILED_RUN, sum(plan.position for plan in plans))
        partitions = [plan.partition for plan in plans]
        if made.exhausted(self.now):
            raise self.alert(partitions, "the last run failed")
        if made.due(self.now):
            made = made.next(self.now)
            self.cursor = Cursor({FAILED_RUN: made})
            self.log_request(partitions, made.count)
            return rerun_request(self.pipeline, partitions, made.count, self.now)
        self.cursor = Cursor({FAILED_RUN: made})
        return None

    def log_request(self, partitions: list[int], attempt: int) -> None:
        logger.info(
            "Requested a run of %s (attempt %d).",
            self.pipeline.name,
            attempt,
            extra={"pipeline": self.pipeline.name, "partitions": partitions, "attempt": attempt},
        )

    def alert(self, partitions: list[int], reason: str) -> SensorAlert:
        name = self.pipeline.name
        logger.error("Gave up on %s: %s.", name, reason, extra={"pipeline": name, "partitions": partitions})
        return SensorAlert(
            f"Gave up on {name} after {MAX_REQUESTS} runs: {reason}. "
            "Check the last runs, then reset this sensor's cursor."
        )

    def observation(self, plans: list[PartitionPlan]) -> dg.AssetObservation:
        """The offsets of the source as an observation, so that the graph shows them."""
        topic = self.pipeline.source.name
        partitions = {p.partition: Bounds(p.log_start, p.stable_end, p.high_watermark) for p in plans}
        lag = {f"lag_{self.pipeline.name}": sum(plan.lag for plan in plans)}
        return dg.AssetObservation(topic, metadata={**observation_metadata(self.instance, topic, partitions), **lag})
