"""The sensor that raises an alert when a partition does not advance, even if others do."""

import logging
import time

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.sensors.backoff import Cursor, Requests, SensorAlert
from eos_assets.orchestration.sensors.runs import connect, default_status, missing_topics
from eos_assets.run.plan import PartitionPlan, make_plan

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 30
#: A lagging partition that commits nothing for this time is stuck, whatever the pipeline declares.
STUCK_SECONDS = 600.0


def stuck_partitions(pipeline: Pipeline) -> dg.SensorDefinition:
    """Record since when each partition lags and since when an open transaction holds back the source, and raise an
    alert when that takes too long. Request no run."""

    @dg.sensor(
        name=f"{pipeline.name}_stuck",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=default_status(),
        description=f"Raises an alert when partitions of {pipeline.name} do not advance; requests no run.",
    )
    def sensor(context: dg.SensorEvaluationContext, kafka: KafkaResource) -> dg.SensorResult | dg.SkipReason:
        connection = connect(kafka)
        if missing := missing_topics(pipeline, connection):
            return dg.SkipReason(missing)
        plans, cursor, now = make_plan(pipeline, connection), Cursor.load(context.cursor), time.time()
        lagging = {p.partition: first_seen(cursor, f"{p.partition}", p.position, now) for p in plans if p.lag}
        held = {
            p.partition: first_seen(cursor, f"source {p.partition}", p.stable_end, now)
            for p in plans
            if p.high_watermark > p.stable_end
        }
        if problems := [*find_stuck(pipeline, plans, lagging, now), *find_held_back(pipeline, held, now)]:
            partitions = sorted({partition for partition, _ in problems})
            logger.error(
                "%s does not advance.", pipeline.name, extra={"pipeline": pipeline.name, "partitions": partitions}
            )
            raise SensorAlert(f"{pipeline.name}: {'; '.join(problem for _, problem in problems)}.")
        seen = {f"{p}": entry for p, entry in lagging.items()} | {f"source {p}": entry for p, entry in held.items()}
        return dg.SensorResult(skip_reason="All partitions advance.", cursor=Cursor(seen).dump())

    return sensor


def first_seen(cursor: Cursor, name: str, position: int, now: float) -> Requests:
    """When this position was first seen, without a request."""
    return Requests(position, 0, cursor.requests_at(name, position).timestamp or now)


def find_stuck(
    pipeline: Pipeline, plans: list[PartitionPlan], lagging: dict[int, Requests], now: float
) -> list[tuple[int, str]]:
    """The partitions that do not advance, and those that are late by the declared `fresh_within`."""
    fresh = pipeline.freshness.total_seconds() if pipeline.freshness else STUCK_SECONDS
    declared = f", later than fresh_within={fresh:g} s" if fresh < STUCK_SECONDS else ""
    return [
        (
            plan.partition,
            f"partition {plan.partition} lags by {plan.lag:,} offsets and committed nothing for "
            f"{now - lagging[plan.partition].timestamp:.0f} s{declared}: check the last runs; it is safe to repeat one",
        )
        for plan in plans
        if plan.lag and now - lagging[plan.partition].timestamp > min(fresh, STUCK_SECONDS)
    ]


def find_held_back(pipeline: Pipeline, held: dict[int, Requests], now: float) -> list[tuple[int, str]]:
    return [
        (partition, f"an open transaction holds back {pipeline.source.name}/{partition} for longer than its timeout")
        for partition, entry in held.items()
        if now - entry.timestamp > pipeline.batching.timeout_ms / 1000
    ]
