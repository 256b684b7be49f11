"""The audit tables of a pipeline as assets: Delta tables, behind the checks that guard them."""

from collections.abc import Iterator

import dagster as dg

from eos_assets.audit.tables import TABLES, AuditTables
from eos_assets.defs.source_topic import OWNERS
from eos_assets.defs.transactional_topic import pool_of, sink_keys, told
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.resources.kafka import KafkaResource
from eos_assets.resources.lake import LakeResource
from eos_assets.resources.spark import SparkResource

DESCRIPTIONS = {
    "audit_transactions": "One row per committed transaction: the ledger.",
    "audit_deliveries": "One row per output record: where it is, where it came from, its digest.",
    "audit_dead_letters": "One row per rejected record: its bytes, its origin, the reason.",
    "audit_partitions": "One row per source partition: position, lag, and up to where it is proven.",
}


class AuditConfig(dg.Config):
    """`rebuild` forgets the tables and makes them again from the topics."""

    rebuild: bool = False


def table_key(pipeline: Pipeline, table: str) -> dg.AssetKey:
    return dg.AssetKey([pipeline.name, table])


def audit_tables(pipeline: Pipeline) -> dg.AssetsDefinition:
    upstream = [*sink_keys(pipeline), dg.AssetKey(pipeline.names().dead_letters)]
    specs = [
        dg.AssetSpec(
            table_key(pipeline, table),
            deps=upstream,
            description=DESCRIPTIONS[table],
            group_name=pipeline.name,
            kinds={"delta", "spark"},
            owners=OWNERS,
            tags={"layer": "audit"},
        )
        for table in TABLES
    ]

    @dg.multi_asset(specs=specs, name=f"{pipeline.name}_audit", pool=f"{pool_of(pipeline)}_audit")
    def materialize(
        config: AuditConfig, kafka: KafkaResource, spark: SparkResource, lake: LakeResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        tables = AuditTables(pipeline, spark.spark_session, kafka.connection(), lake.address())
        for state in told(lambda: tables.update(rebuild=config.rebuild)):
            columns = [dg.TableColumn(name, kind) for name, kind in state.columns.items()]
            yield dg.MaterializeResult(
                asset_key=table_key(pipeline, state.name),
                metadata={
                    "dagster/row_count": state.rows,
                    "dagster/column_schema": dg.TableSchema(columns=columns),
                    "dagster/column_lineage": lineage(pipeline, list(state.columns)),
                    "path": dg.MetadataValue.path(state.path),
                },
            )

    return materialize


def lineage(pipeline: Pipeline, columns: list[str]) -> dg.TableColumnLineage:
    """Each column comes from the records of the sinks, or from what was written about them."""
    sources = [dg.TableColumnDep(asset_key=key, column_name="value") for key in sink_keys(pipeline)]
    origin = [dg.TableColumnDep(asset_key=dg.AssetKey(pipeline.source.name), column_name="offset")]
    from_source = {"source_partition", "source_offset", "start", "next", "position", "origin"}
    return dg.TableColumnLineage({name: origin if name in from_source else sources for name in columns})
