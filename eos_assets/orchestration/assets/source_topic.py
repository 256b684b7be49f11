"""A source topic as an external asset: observed, never written by Dagster."""

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, bounds
from eos_assets.orchestration.keys import source_key
from eos_assets.orchestration.lineage import RECORD, column_schema
from eos_assets.orchestration.partitions import add_new_partitions
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.run.plan import make_plan


def source_topic(topic: str, readers: list[Pipeline]) -> dg.AssetsDefinition:
    """The topic that these pipelines read. An observation shows its offsets and the lag of each reader."""
    names = ", ".join(pipeline.name for pipeline in readers)
    spec = dg.AssetSpec(
        source_key(topic),
        description=f"The Kafka topic {topic}, read by {names}. An observation shows its offsets and lags.",
        metadata={"dagster/column_schema": column_schema(RECORD)},
        group_name=readers[0].asset_group,
        kinds={"kafka"},
        owners=readers[0].owners,
        tags={"layer": "source", **readers[0].tags},
    )

    def observe(context: dg.AssetExecutionContext, kafka: KafkaResource) -> dg.ObserveResult:
        connection = kafka.connection()
        add_new_partitions(context.instance, topic, connection)
        offsets = observation_metadata(context.instance, topic, bounds(connection, topic))
        return dg.ObserveResult(asset_key=spec.key, metadata={**offsets, **lags(readers, connection)})

    return observable_asset(spec, observe)


def observable_asset(spec: dg.AssetSpec, observe: Callable[..., dg.ObserveResult]) -> dg.AssetsDefinition:
    """Make an observable asset of a whole spec, with owners and kinds. Only this decorator, a beta, takes one."""
    name = "".join(c if c.isalnum() else "_" for c in spec.key.path[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        asset: dg.AssetsDefinition = dg.multi_observable_source_asset(specs=[spec], name=f"observe_{name}")(observe)
    return asset


def observation_metadata(instance: dg.DagsterInstance, topic: str, partitions: Mapping[int, Bounds]) -> dict[str, Any]:
    """The metadata of an observation: the offsets of a topic, and its growth since the last observation."""
    stable = sum(partition.stable for partition in partitions.values())
    return {
        "partition_count": len(partitions),
        "log_start": sum(partition.start for partition in partitions.values()),
        "last_stable_offset": stable,
        "high_watermark": sum(partition.high for partition in partitions.values()),
        "observed_at": time.time(),
        **growth(instance, topic, stable),
        "partitions": offsets_table(partitions),
    }


def growth(instance: dg.DagsterInstance, topic: str, stable: int) -> dict[str, float]:
    """The records per second since the last observation."""
    records = instance.fetch_observations(source_key(topic), limit=1).records
    observation = records[0].asset_observation if records else None
    if observation is None or "observed_at" not in observation.metadata:
        return {}
    before, observed_at = (observation.metadata[name].value for name in ("last_stable_offset", "observed_at"))
    assert isinstance(before, int | float)
    assert isinstance(observed_at, int | float)
    seconds = max(0.001, time.time() - observed_at)
    return {"records_per_second": max(0.0, round((stable - before) / seconds, 1))}


def lags(readers: list[Pipeline], connection: Connection) -> dict[str, int | str]:
    """The lag of each reader that has been set up."""
    existing = connection.metadata().topics
    return {f"lag_{reader.name}": lag(reader, connection) for reader in readers if reader.names().ledger in existing}


def lag(reader: Pipeline, connection: Connection) -> int | str:
    """The lag of a reader, or the problem that keeps it from resuming."""
    try:
        return sum(plan.lag for plan in make_plan(reader, connection))
    except EosError as error:
        return error.problem


def offsets_table(partitions: Mapping[int, Bounds]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [
            dg.TableRecord({"partition": p, "log_start": b.start, "last_stable": b.stable, "high_watermark": b.high})
            for p, b in sorted(partitions.items())
        ]
    )
