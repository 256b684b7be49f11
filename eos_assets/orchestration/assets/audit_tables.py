"""The audit tables of a pipeline as assets: Delta tables, behind the checks that guard them."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from eos_assets.audit.tables import TABLES, AuditTables
from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.assets.source_topic import OWNERS
from eos_assets.orchestration.assets.transactional_topic import pool_of, told
from eos_assets.orchestration.keys import sink_keys, table_key
from eos_assets.orchestration.lineage import lineage, schema, topics_of, upstream_of
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource

DESCRIPTIONS = {
    "audit_transactions": "One row per committed transaction: the ledger.",
    "audit_deliveries": "One row per output record: where it is, where it came from, its digest.",
    "audit_dead_letters": "One row per rejected record: its bytes, its origin, the reason.",
    "audit_partitions": "One row per source partition: position, lag, and up to where it is proven.",
}


class AuditConfig(dg.Config):
    """`rebuild` forgets the tables and makes them again from the topics."""

    rebuild: bool = False


def audit_tables(pipeline: Pipeline, declared: Sequence[Pipeline] = ()) -> dg.AssetsDefinition:
    topics = topics_of(pipeline, declared)
    specs = [
        dg.AssetSpec(
            table_key(pipeline, table),
            # All of them depend on the sink: its checks come first, whichever table is chosen.
            deps=dict.fromkeys([sink_keys(pipeline)[0], *upstream_of(table, topics)]),
            skippable=True,
            description=DESCRIPTIONS[table],
            group_name=pipeline.name,
            kinds={"delta", "spark"},
            owners=OWNERS,
            tags={"layer": "audit"},
        )
        for table in TABLES
    ]

    @dg.multi_asset(specs=specs, name=f"{pipeline.name}_audit", pool=f"{pool_of(pipeline)}_audit", can_subset=True)
    def materialize(
        context: dg.AssetExecutionContext,
        config: AuditConfig,
        kafka: KafkaResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[dg.MaterializeResult[None]]:
        tables = AuditTables(pipeline, spark.spark_session, kafka.connection(), lake.address())
        for state in told(lambda: tables.update(rebuild=config.rebuild)):
            key = table_key(pipeline, state.name)
            metadata: dict[str, Any] = {
                "dagster/row_count": state.rows,
                "dagster/column_schema": schema(state.columns),
                "dagster/column_lineage": lineage(state.name, state.columns, topics),
                "path": dg.MetadataValue.path(state.path),
            }
            if key in context.selected_asset_keys:
                yield dg.MaterializeResult(asset_key=key, metadata=metadata)
            else:  # nobody asked for it, and it was brought up to date all the same
                context.log_event(dg.AssetMaterialization(key, metadata=metadata))

    return materialize
