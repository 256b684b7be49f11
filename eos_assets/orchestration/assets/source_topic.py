"""A source topic as an external asset: observed, never written by Dagster."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, bounds
from eos_assets.orchestration.lineage import RECORD, schema
from eos_assets.orchestration.partitions import add_missing
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.run.plan import make_plan

OWNERS = ["team:data-platform"]


def source_topic(topic: str, readers: list[Pipeline]) -> dg.AssetsDefinition:
    """The topic that these pipelines read: its bounds, its growth, and how far each of them lags behind."""
    names = ", ".join(pipeline.name for pipeline in readers)
    spec = dg.AssetSpec(
        topic,
        description=f"The Kafka topic {topic}, read by {names}. Observing it tells its offsets and each reader's lag.",
        metadata={"dagster/column_schema": schema(RECORD)},
        group_name=readers[0].name,
        kinds={"kafka"},
        owners=OWNERS,
        tags={"layer": "source"},
    )

    def observe(context: dg.AssetExecutionContext, kafka: KafkaResource) -> dg.ObserveResult:
        connection = kafka.connection()
        add_missing(context.instance, topic, connection)
        found = bounds(connection, topic)
        told = observed(context.instance, topic, found)
        return dg.ObserveResult(asset_key=spec.key, metadata={**told, **lags(readers, connection)})

    return observable(spec, observe)


def observable(spec: dg.AssetSpec, observe: Callable[..., dg.ObserveResult]) -> dg.AssetsDefinition:
    """Dagster calls this decorator a beta; it is the only one that takes a whole spec, with owners and kinds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        made: dg.AssetsDefinition = dg.multi_observable_source_asset(
            specs=[spec], name=f"observe_{identifier(spec.key.path[-1])}"
        )(observe)
    return made


def observed(instance: dg.DagsterInstance, topic: str, found: dict[int, Bounds]) -> dict[str, Any]:
    """What an observation of a topic tells."""
    return {
        **totals(found),
        **rate(instance, dg.AssetKey(topic), found),
        "partitions": partition_table(found),
    }


def totals(found: dict[int, Bounds]) -> dict[str, int | float]:
    return {
        "partition_count": len(found),
        "log_start": sum(b.start for b in found.values()),
        "last_stable_offset": sum(b.stable for b in found.values()),
        "high_watermark": sum(b.high for b in found.values()),
        "observed_at": time.time(),
    }


def rate(instance: dg.DagsterInstance, key: dg.AssetKey, found: dict[int, Bounds]) -> dict[str, float]:
    """Records per second since the last observation."""
    records = instance.fetch_observations(key, limit=1).records
    observation = records[0].asset_observation if records else None
    if observation is None or "observed_at" not in observation.metadata:
        return {}
    before, at = (observation.metadata[name].value for name in ("last_stable_offset", "observed_at"))
    assert isinstance(before, int | float)
    assert isinstance(at, int | float)
    seconds = max(0.001, time.time() - at)
    return {"records_per_second": max(0.0, round((sum(b.stable for b in found.values()) - before) / seconds, 1))}


def lags(readers: list[Pipeline], connection: Connection) -> dict[str, int | str]:
    """How far each reader lags behind; of one that cannot go on, why."""
    existing = connection.metadata().topics
    return {f"lag_{reader.name}": lag(reader, connection) for reader in readers if reader.names().ledger in existing}


def lag(reader: Pipeline, connection: Connection) -> int | str:
    try:
        return sum(plan.lag for plan in make_plan(reader, connection))
    except EosError as error:
        return error.problem


def partition_table(found: dict[int, Bounds]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [
            dg.TableRecord({"partition": p, "log_start": b.start, "last_stable": b.stable, "high_watermark": b.high})
            for p, b in sorted(found.items())
        ]
    )


def identifier(topic: str) -> str:
    """A topic's name as Dagster allows names of ops."""
    return "".join(c if c.isalnum() else "_" for c in topic)
