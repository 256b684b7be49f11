"""The topics that a pipeline writes in its transactions as assets, partitioned by Kafka partition."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
import pyarrow as pa
from pydantic import Field

from eos_assets.declare.pipeline import Pipeline
from eos_assets.experiment.faults import KINDS, Faults
from eos_assets.orchestration.assets import OWNERS
from eos_assets.orchestration.failures import eos_errors_as_failures
from eos_assets.orchestration.keys import dead_letters_key, pool_name, source_keys, topic_key
from eos_assets.orchestration.ledger_metadata import ledger_metadata
from eos_assets.orchestration.lineage import LEDGER, PROVENANCE, RECORD, column_schema
from eos_assets.orchestration.logs import forward_messages
from eos_assets.orchestration.partitions import topic_partitions
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.platform.settings import Settings
from eos_assets.run.report import RunReport
from eos_assets.run.run import RunOptions, run_pipeline


class RunConfig(dg.Config):
    """The options of one run."""

    max_records: int | None = Field(default=None, description="At most this number of offsets of each partition.")
    upto: dict[str, int] | None = Field(
        default=None, description="Source partition → the offset before which the run ends. A sensor sets it."
    )
    max_attempts: int = Field(default=20, description="The number of Spark jobs after which the run gives up.")
    failure_probability: float = Field(default=0.0, description="Fault injection: the share of transactions that fail.")
    failure_kind: str = Field(default="before_commit", description=f"Fault injection: {', '.join(KINDS)}.")
    seed: int = Field(default=0, description="Fault injection: the same seed fails the same transactions.")
    kill_partition: int | None = Field(
        default=None, description="Fault injection: kill the worker of this partition once, within a transaction."
    )

    def faults(self) -> Faults:
        faults = Faults(self.failure_probability, self.seed, kind=self.failure_kind)
        if self.kill_partition is None:
            return faults
        return replace(faults, failpoint="mid_produce", action="exit", partition=self.kill_partition)


def transactional_topic(pipeline: Pipeline, declared: Sequence[Pipeline] = ()) -> dg.AssetsDefinition:
    """The topics that one transaction writes. A run advances the chosen partitions to the last stable offset."""
    specs = topic_specs(pipeline, declared)

    @dg.multi_asset(
        specs=list(specs.values()),
        name=pipeline.name,
        partitions_def=topic_partitions(pipeline.source.name),
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=pool_name(pipeline),
        can_subset=True,
    )
    def materialize(
        context: dg.AssetExecutionContext,
        config: RunConfig,
        kafka: KafkaResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetMaterialization]:
        partitions = sorted(int(key) for key in context.partition_keys)
        with eos_errors_as_failures(), forward_messages(context.log):
            options = run_options(config, partitions, lake.address() if pipeline.stateful else None)
            report = run_pipeline(pipeline, spark.spark_session, kafka.connection(), options)

        def metadata(topic: str, partition: int) -> dict[str, Any]:
            return ledger_metadata(pipeline, report, partition, topic, context.run.run_id)

        if not report.complete:  # some transactions may have been committed
            for partition in sorted({entry.partition for entry in report.entries}):
                for topic, spec in specs.items():
                    yield dg.AssetMaterialization(
                        spec.key, partition=str(partition), metadata=metadata(topic, partition)
                    )
            raise dg.Failure(failure_description(report), allow_retries=True)
        for key in context.partition_keys:
            for topic, spec in specs.items():
                if spec.key in context.selected_asset_keys:
                    context.add_asset_metadata(metadata(topic, int(key)), spec.key, key)
                else:  # not selected, but written in the same transactions
                    context.log_event(
                        dg.AssetMaterialization(spec.key, partition=key, metadata=metadata(topic, int(key)))
                    )
        for asset_key in context.selected_asset_keys:
            yield dg.MaterializeResult(asset_key=asset_key)

    return materialize


def run_options(config: RunConfig, partitions: list[int], lake: str | None) -> RunOptions:
    return RunOptions(
        partitions=partitions,
        max_records=config.max_records,
        upto=None if config.upto is None else {p: config.upto.get(str(p), 0) for p in partitions},
        max_attempts=config.max_attempts,
        faults=config.faults(),
        lake=lake,
        accepted_spark=Settings.load().accept_spark,
    )


def topic_specs(pipeline: Pipeline, declared: Sequence[Pipeline]) -> dict[str, dg.AssetSpec]:
    """Topic → its asset: the sinks, the dead letters, the ledger and the provenance maps."""
    name, source, names = pipeline.name, pipeline.source.name, pipeline.names()
    sinks = [topic_key(pipeline, sink.name).to_user_string() for sink in pipeline.sinks]

    def spec(key: dg.AssetKey, layer: str, description: str, columns: pa.Schema) -> dg.AssetSpec:
        return dg.AssetSpec(
            key,
            deps=source_keys(pipeline, declared),
            skippable=True,
            description=description,
            metadata={"dagster/column_schema": column_schema(columns)},
            group_name=name,
            owners=OWNERS,
            code_version=pipeline.code_version,
            kinds={"kafka", "spark"},
            tags={"layer": layer},
        )

    return {
        **{
            sink.name: spec(
                topic_key(pipeline, sink.name),
                "transactional",
                f"The outputs of **{name}** for the records of `{source}`, in Kafka transactions, exactly once.\n\n"
                f"{inspect.getdoc(pipeline.transform) or ''}",
                RECORD,
            )
            for sink in pipeline.sinks
        },
        names.dead_letters: spec(
            dead_letters_key(pipeline),
            "dead_letters",
            f"The records of `{source}` that **{name}** rejected, with their bytes and the reason.",
            RECORD,
        ),
        names.ledger: spec(
            dg.AssetKey(names.ledger),
            "ledger",
            f"The position of **{name}**: one entry per transaction, written inside it.",
            LEDGER,
        ),
        names.provenance: spec(
            dg.AssetKey(names.provenance),
            "provenance",
            f"Which record of {' and '.join(sinks)} came from which record of `{source}`, written in the same "
            "transaction.",
            PROVENANCE,
        ),
    }


def failure_description(report: RunReport) -> str:
    """Why a run is incomplete: the last failed job, and the partitions that were refused."""
    reasons = [f"partition {outcome.partition}: {outcome.reason}" for outcome in report.outcomes if outcome.reason]
    reason = "; ".join([*report.failures[-1:], *reasons]) or "all attempts were used"
    return f"{report.pipeline} did not complete in {report.attempts} attempt(s): {reason}"
