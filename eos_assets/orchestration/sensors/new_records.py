"""The sensor that requests a run when the source has new records."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, stable_ends
from eos_assets.orchestration.assets.source_topic import observation_metadata
from eos_assets.orchestration.jobs import AssetJob
from eos_assets.orchestration.keys import source_key
from eos_assets.orchestration.partitions import new_partitions, range_tags
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.sensors.backoff import MAX_REQUESTS, Cursor, Requests, SensorAlert
from eos_assets.orchestration.sensors.check_status import load_check_status
from eos_assets.orchestration.sensors.runs import connect, default_status, has_active_run, missing_topics
from eos_assets.run.plan import PartitionPlan, make_plan
from eos_assets.verify import checkpoint

logger = logging.getLogger(__name__)

#: Shorter than a round of the daemon, so that no round skips the sensor.
INTERVAL_SECONDS = 1
#: A source that has not grown is planned again after this time: its ledger may have changed.
IDLE_SECONDS = 30.0
#: The offsets of each partition that one run reads at most; the next tick requests the following ones.
RECORDS_PER_RUN = 5_000_000


def new_records(pipeline: Pipeline, job: AssetJob, upstream: Sequence[Pipeline] = ()) -> dg.SensorDefinition:
    """Request one run at a time, over the lagging partitions, and only on records that are proven upstream."""

    @dg.sensor(
        name=f"{pipeline.name}_new_records",
        job=job,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=default_status(),
        description=f"Runs {pipeline.name} when {pipeline.source.name} has new records. While the position does not "
        "advance, the delay grows; after the last request it raises an alert.",
    )
    def sensor(context: dg.SensorEvaluationContext, kafka: KafkaResource) -> dg.SensorResult | dg.SkipReason:
        if has_active_run(context.instance, job.name):
            return dg.SensorResult(skip_reason="A run is active.", cursor=context.cursor)
        connection = connect(kafka)
        if missing := missing_topics(pipeline, connection):
            return dg.SkipReason(missing)
        return Tick(context, connection, pipeline, upstream).evaluate()

    return sensor


class Tick:
    """One evaluation of the sensor."""

    def __init__(
        self,
        context: dg.SensorEvaluationContext,
        connection: Connection,
        pipeline: Pipeline,
        upstream: Sequence[Pipeline],
    ) -> None:
        self.instance = context.instance
        self.connection = connection
        self.pipeline = pipeline
        self.upstream = upstream
        self.cursor = Cursor.load(context.cursor)
        self.now = time.time()
        keys = new_partitions(self.instance, pipeline.source.name, connection)
        name = f"{pipeline.source.name}_partitions"
        self.partition_requests = [dg.AddDynamicPartitionsRequest(name, keys)] if keys else []

    def evaluate(self) -> dg.SensorResult:
        if self.is_idle():
            return self.skip("No new records.")
        if refusal := self.refuse_upstream():
            return self.skip(refusal)
        plans = make_plan(self.pipeline, self.connection)
        if not any(plan.lag for plan in plans):
            self.cursor = Cursor({idle(p.partition): Requests(p.stable_end, timestamp=self.now) for p in plans})
            return self.skip("No new records.")
        lagging = [plan for plan in self.limit_to_proof(plans) if plan.lag]
        if not lagging:
            self.cursor = Cursor()
            return self.skip("Waiting until the new records are proven upstream.")
        request = self.request_run(lagging)
        if request is None:
            return self.skip("Waiting before the next request.")
        return dg.SensorResult(
            run_requests=[request],
            asset_events=[] if self.upstream else [self.observation(plans)],
            cursor=self.cursor.dump(),
            dynamic_partitions_requests=self.partition_requests,
        )

    def skip(self, reason: str) -> dg.SensorResult:
        return dg.SensorResult(
            skip_reason=reason,
            cursor=self.cursor.dump(),
            dynamic_partitions_requests=self.partition_requests,
        )

    def is_idle(self) -> bool:
        """Whether the source still ends where a recent plan had nothing to do. A plan takes a dozen requests, this
        takes one."""
        topic = self.pipeline.source.name
        names = {p: idle(p) for p in self.connection.partitions(topic)}
        known = {p: self.cursor.requests[name] for p, name in names.items() if name in self.cursor.requests}
        if len(known) < len(names) or any(self.now - seen.timestamp > IDLE_SECONDS for seen in known.values()):
            return False
        return stable_ends(self.connection, topic, list(names)) == {p: seen.position for p, seen in known.items()}

    def refuse_upstream(self) -> str:
        """Refuse to read what failed its checks upstream, and return the reason; empty if all checks hold."""
        failed = load_check_status(self.instance, self.upstream).blocking
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
        requests = {plan.partition: self.cursor.requests_at(str(plan.partition), plan.position) for plan in lagging}
        due = [plan for plan in lagging if requests[plan.partition].due(self.now)]
        exhausted = [plan.partition for plan in lagging if requests[plan.partition].exhausted(self.now)]
        if exhausted and not due:
            raise self.alert(exhausted)
        requests |= {plan.partition: requests[plan.partition].next(self.now) for plan in due}
        self.cursor = Cursor({str(partition): made for partition, made in requests.items()})
        return self.run_request(due, max(requests[plan.partition].count for plan in due)) if due else None

    def run_request(self, plans: list[PartitionPlan], attempt: int) -> dg.RunRequest:
        """A request over the smallest range that covers these partitions.

        Dagster ignores a run key that was used before, so it contains the ranges, the attempt and the time.
        """
        name, partitions = self.pipeline.name, [plan.partition for plan in plans]
        logger.info(
            "Requested a run of %s (attempt %d).",
            name,
            attempt,
            extra={"pipeline": name, "partitions": partitions, "attempt": attempt},
        )
        ranges = ",".join(f"{plan.partition}:{plan.position}-{plan.stable_end}" for plan in plans)
        config: dict[str, object] = {"max_records": RECORDS_PER_RUN}
        if self.upstream:
            config["upto"] = {str(plan.partition): plan.stable_end for plan in plans}
        return dg.RunRequest(
            run_key=f"{name}/{ranges}/{attempt}/{self.now:.3f}",
            run_config={"ops": {name: {"config": config}}},
            tags={**range_tags(min(partitions), max(partitions)), "eos/try": str(attempt)},
        )

    def alert(self, partitions: list[int]) -> SensorAlert:
        name, places = self.pipeline.name, ", ".join(map(str, partitions))
        reason = f"partitions {places} did not advance"
        logger.error("Gave up on %s: %s.", name, reason, extra={"pipeline": name, "partitions": partitions})
        return SensorAlert(
            f"Gave up on {name} after {MAX_REQUESTS} runs: {reason}. Find the cause in the last runs and run "
            f"`eos run {name}`, or reset this sensor's cursor. The alert ends once they advance."
        )

    def observation(self, plans: list[PartitionPlan]) -> dg.AssetObservation:
        """The offsets of the source as an observation, so that the graph shows them."""
        topic = self.pipeline.source.name
        partitions = {p.partition: Bounds(p.log_start, p.stable_end, p.high_watermark) for p in plans}
        lag = {f"lag_{self.pipeline.name}": sum(plan.lag for plan in plans)}
        metadata = {**observation_metadata(self.instance, topic, partitions), **lag}
        return dg.AssetObservation(source_key(topic), metadata=metadata)


def idle(partition: int) -> str:
    """The name in the cursor of a partition that had no new records."""
    return f"idle {partition}"
