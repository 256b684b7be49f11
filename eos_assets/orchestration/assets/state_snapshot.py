"""The state of a stateful pipeline as an asset: a Delta table, each row with the ledger position it belongs to."""

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.assets.source_topic import OWNERS
from eos_assets.orchestration.assets.transactional_topic import pool_of, told
from eos_assets.orchestration.keys import sink_keys, table_key
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.run.state_snapshot import update_snapshot
from eos_assets.state.snapshot import Snapshot


def state_snapshot(pipeline: Pipeline) -> dg.AssetsDefinition:
    """Behind the checks, as the audit tables are: a state that is not proven is not kept."""

    @dg.asset(
        key=table_key(pipeline, "state"),
        deps=sink_keys(pipeline),
        description=f"The state of {pipeline.name} at a position of its ledger. It shortens a restart; the changelog "
        "alone is the truth.",
        group_name=pipeline.name,
        kinds={"delta", "spark"},
        owners=OWNERS,
        tags={"layer": "state"},
        pool=f"{pool_of(pipeline)}_state",
    )
    def materialize(
        context: dg.AssetExecutionContext, kafka: KafkaResource, spark: SparkResource, lake: LakeResource
    ) -> dg.MaterializeResult[None]:
        snapshot = Snapshot(pipeline, spark.spark_session, kafka.connection(), lake.address(), say=context.log.warning)
        rows = told(lambda: update_snapshot(snapshot))
        positions = {part.partition: part.position for part in snapshot.parts}
        return dg.MaterializeResult(
            metadata={
                "dagster/row_count": rows,
                "positions": ", ".join(f"{p}: {at}" for p, at in sorted(positions.items())) or "none yet",
                "generation": snapshot.generation,
                "path": dg.MetadataValue.path(snapshot.path),
            }
        )

    return materialize
