"""A sensor that asks for nothing: it says aloud what does not move, also where other partitions do."""

import time

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.sensors import default_status, missing_topics
from eos_assets.orchestration.tries import Cursor, GivenUp, Tries
from eos_assets.run.plan import PartitionPlan, make_plan

SECONDS = 30
#: A partition that commits nothing for so long, with records to bring over, is stuck.
STUCK_SECONDS = 600.0


def stuck(pipeline: Pipeline) -> dg.SensorDefinition:
    """Remembers since when each partition waits, and since when somebody's open transaction holds the source back."""

    @dg.sensor(
        name=f"{pipeline.name}_stuck",
        minimum_interval_seconds=SECONDS,
        default_status=default_status(),
        description=f"Says aloud which partitions of {pipeline.name} do not move, and why; asks for no run.",
    )
    def sensor(context: dg.SensorEvaluationContext, kafka: KafkaResource) -> dg.SensorResult | dg.SkipReason:
        connection = kafka.connection()
        if missing := missing_topics(pipeline, connection):
            return dg.SkipReason(missing)
        plans, cursor, now = make_plan(pipeline, connection), Cursor.load(context.cursor), time.time()
        waiting = {p.partition: since(cursor, f"{p.partition}", p.position, now) for p in plans if p.lag}
        held = {
            p.partition: since(cursor, f"source {p.partition}", p.stable_end, now)
            for p in plans
            if p.high_watermark > p.stable_end
        }
        if told := [*idle(plans, waiting, now), *held_back(pipeline, held, now)]:
            raise GivenUp(f"{pipeline.name}: {'; '.join(told)}.")
        known = {f"{p}": tries for p, tries in waiting.items()} | {f"source {p}": tries for p, tries in held.items()}
        return dg.SensorResult(skip_reason="Everything moves.", cursor=Cursor(known).dump())

    return sensor


def since(cursor: Cursor, name: str, at: int, now: float) -> Tries:
    """When it was first seen at this place."""
    known = cursor.of(name, at)
    return Tries(at, 0, known.asked_at or now)


def idle(plans: list[PartitionPlan], waiting: dict[int, Tries], now: float) -> list[str]:
    return [
        f"{plan.lag:,} offsets of partition {plan.partition} wait, and nothing of them was committed for "
        f"{now - waiting[plan.partition].asked_at:.0f} s: look at the last runs, to end and repeat one is harmless"
        for plan in plans
        if plan.lag and now - waiting[plan.partition].asked_at > STUCK_SECONDS
    ]


def held_back(pipeline: Pipeline, held: dict[int, Tries], now: float) -> list[str]:
    return [
        f"an open transaction holds {pipeline.source.name}/{partition} back, longer than its timeout"
        for partition, tries in held.items()
        if now - tries.asked_at > pipeline.batching.timeout_ms / 1000
    ]
