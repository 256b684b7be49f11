"""The state of a stateful pipeline as an asset: a Delta table, each row with the ledger position it belongs to."""

import dagster as dg

from eos_assets.context import PipelineContext
from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.asset_spec import pipeline_asset_spec
from eos_assets.orchestration.failures import eos_errors_as_failures
from eos_assets.orchestration.keys import pool_name, sink_keys, table_key
from eos_assets.orchestration.logs import forward_messages
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.run.state_snapshot import update_snapshot
from eos_assets.state.snapshot import Snapshot


def state_snapshot(pipeline: Pipeline) -> dg.AssetsDefinition:
    """The snapshot, downstream of the checks as the audit tables are: only a proven state is kept."""
    key = table_key(pipeline, "state")
    spec = pipeline_asset_spec(
        pipeline,
        key,
        layer="state",
        description=f"The state of {pipeline.name} at a position of its ledger. It shortens a restart; the changelog "
        "is the truth.",
        deps=sink_keys(pipeline),
        kinds={"delta", "spark"},
    )

    @dg.multi_asset(specs=[spec], name=f"{pipeline.name}__state", pool=f"{pool_name(pipeline)}_state")
    def materialize(
        context: dg.AssetExecutionContext, kafka: KafkaResource, spark: SparkResource, lake: LakeResource
    ) -> dg.MaterializeResult[None]:
        pipeline_context = PipelineContext(pipeline, spark.spark_session, kafka.connection())
        snapshot = Snapshot(pipeline_context, lake.address())
        with eos_errors_as_failures(context), forward_messages(context.log):
            rows = update_snapshot(snapshot)
        positions = {part.partition: part.position for part in snapshot.parts}
        return dg.MaterializeResult(
            asset_key=key,
            metadata={
                "dagster/row_count": rows,
                "positions": ", ".join(f"{p}: {position}" for p, position in sorted(positions.items())) or "none yet",
                "generation": snapshot.generation,
                "path": dg.MetadataValue.path(snapshot.path),
            },
        )

    return materialize
