"""The audit tables of a pipeline as assets: Delta tables, downstream of the checks."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from eos_assets.audit.tables import AuditTables
from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.asset_spec import pipeline_asset_spec
from eos_assets.orchestration.failures import eos_errors_as_failures
from eos_assets.orchestration.keys import pool_name, sink_keys, table_key
from eos_assets.orchestration.lineage import TABLES, column_lineage, column_schema, topic_keys, upstream_keys
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource

DESCRIPTIONS = {
    "audit_transactions": "One row per committed transaction: the ledger.",
    "audit_deliveries": "One row per output record: where it is, where it came from, its digest.",
    "audit_dead_letters": "One row per rejected record: its bytes, its origin, the reason.",
    "audit_partitions": "One row per source partition: position, lag, and the proven position.",
}


class AuditConfig(dg.Config):
    """The options of one update."""

    rebuild: bool = Field(default=False, description="Delete the rows of all tables and read the topics again.")


def audit_tables(pipeline: Pipeline, declared: Sequence[Pipeline] = ()) -> dg.AssetsDefinition:
    """The Delta tables that one update writes."""
    topics = topic_keys(pipeline, declared)
    specs = [
        pipeline_asset_spec(
            pipeline,
            table_key(pipeline, table),
            layer="audit",
            description=DESCRIPTIONS[table],
            # Each depends on the sink, so that the checks run first, whichever table is selected.
            deps=dict.fromkeys([sink_keys(pipeline)[0], *upstream_keys(table, topics)]),
            kinds={"delta", "spark"},
            metadata={"dagster/column_schema": column_schema(columns)},
        )
        for table, columns in TABLES.items()
    ]

    @dg.multi_asset(specs=specs, name=f"{pipeline.name}_audit", pool=f"{pool_name(pipeline)}_audit", can_subset=True)
    def materialize(
        context: dg.AssetExecutionContext,
        config: AuditConfig,
        kafka: KafkaResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[dg.MaterializeResult[None]]:
        tables = AuditTables(pipeline, spark.spark_session, kafka.connection(), lake.address())
        with eos_errors_as_failures(context):
            states = tables.update(rebuild=config.rebuild)
        for state in states:
            key = table_key(pipeline, state.name)
            metadata: dict[str, Any] = {
                "dagster/row_count": state.rows,
                "dagster/column_schema": column_schema(TABLES[state.name]),
                "dagster/column_lineage": column_lineage(state.name, topics),
                "path": dg.MetadataValue.path(state.path),
            }
            if key in context.selected_asset_keys:
                yield dg.MaterializeResult(asset_key=key, metadata=metadata)
            else:  # not selected, but updated with the others
                context.log_event(dg.AssetMaterialization(key, metadata=metadata))

    return materialize
