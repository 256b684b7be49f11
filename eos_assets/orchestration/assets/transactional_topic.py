"""The topics that a pipeline writes in its transactions as assets, partitioned by Kafka partition."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import dagster as dg
import pyarrow as pa
from pydantic import Field

from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.asset_spec import pipeline_asset_spec
from eos_assets.orchestration.dead_letters import letters_metadata
from eos_assets.orchestration.failures import eos_errors_as_failures, refuse_retries
from eos_assets.orchestration.keys import dead_letters_key, pool_name, source_keys, topic_key
from eos_assets.orchestration.ledger_metadata import run_metadata
from eos_assets.orchestration.lineage import LEDGER, PROVENANCE, RECORD, column_schema
from eos_assets.orchestration.logs import forward_messages
from eos_assets.orchestration.partitions import topic_partitions
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.platform.settings import Settings
from eos_assets.run.report import RunReport
from eos_assets.run.run import RunOptions, run_pipeline
from eos_assets.sink.job import NoFaults

#: The topics of a pipeline that are assets, and their assets.
TopicSpecs = dict[str, dg.AssetSpec]


class RunConfig(dg.Config):
    """The options of one run."""

    max_records: int | None = Field(default=None, description="At most this number of offsets of each partition.")
    upto: dict[str, int] | None = Field(
        default=None, description="Source partition → the offset before which the run ends. A sensor sets it."
    )
    max_attempts: int = Field(default=20, description="The number of Spark jobs after which the run gives up.")

    def faults(self) -> NoFaults:
        """The faults that the run injects. An experiment has more options, and overrides this."""
        return NoFaults()


def transactional_topic(
    pipeline: Pipeline, declared: Sequence[Pipeline] = (), run_config: type[RunConfig] = RunConfig
) -> dg.AssetsDefinition:
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
        config: run_config,  # type: ignore[valid-type]  # Dagster reads the class at runtime
        kafka: KafkaResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetMaterialization]:
        partitions = sorted(int(key) for key in context.partition_keys)
        with eos_errors_as_failures(context), forward_messages(context.log):
            options = run_options(config, partitions, context.run.run_id, lake.address() if pipeline.stateful else None)
            report = run_pipeline(pipeline, spark.spark_session, kafka.connection(), options)
        if any(entry.dead for entry in report.entries):
            letters = letters_metadata(pipeline, kafka.connection())
            context.log_event(dg.AssetObservation(asset_key=dead_letters_key(pipeline), metadata=letters))
        if not report.complete:  # some transactions may have been committed
            yield from materializations(pipeline, specs, report, sorted({entry.partition for entry in report.entries}))
            if report.refused:
                refuse_retries(context)
            raise dg.Failure(failure_description(report))
        for event in materializations(pipeline, specs, report, partitions):
            if event.asset_key in context.selected_asset_keys:
                context.add_asset_metadata(event.metadata, event.asset_key, event.partition)
            else:  # not selected, but written in the same transactions
                context.log_event(event)
        for asset_key in context.selected_asset_keys:
            yield dg.MaterializeResult(asset_key=asset_key)

    return materialize


def materializations(
    pipeline: Pipeline, specs: TopicSpecs, report: RunReport, partitions: Sequence[int]
) -> Iterator[dg.AssetMaterialization]:
    """What a run wrote from these partitions to each topic, according to the ledger."""
    for partition in partitions:
        for topic, spec in specs.items():
            metadata = run_metadata(pipeline, report, partition, topic)
            yield dg.AssetMaterialization(spec.key, partition=str(partition), metadata=metadata)


def run_options(config: RunConfig, partitions: list[int], dagster_run: str, lake: str | None) -> RunOptions:
    return RunOptions(
        partitions=partitions,
        max_records=config.max_records,
        upto=None if config.upto is None else {p: config.upto.get(str(p), 0) for p in partitions},
        max_attempts=config.max_attempts,
        faults=config.faults(),
        lake=lake,
        accepted_spark=Settings.load().accept_spark,
        run_id=dagster_run,
    )


def topic_specs(pipeline: Pipeline, declared: Sequence[Pipeline]) -> TopicSpecs:
    """Topic → its asset: the sinks, the dead letters, the ledger and the provenance maps."""
    name, source, names = pipeline.name, pipeline.source.name, pipeline.names()
    sinks = [topic_key(pipeline, sink.name).to_user_string() for sink in pipeline.sinks]

    def spec(
        key: dg.AssetKey, layer: str, description: str, columns: pa.Schema, freshness: timedelta | None = None
    ) -> dg.AssetSpec:
        return pipeline_asset_spec(
            pipeline,
            key,
            layer=layer,
            description=description,
            deps=source_keys(pipeline, declared),
            kinds={"kafka", "spark"},
            metadata={"dagster/column_schema": column_schema(columns)},
            code_version=pipeline.code_version,
            freshness=freshness,
        )

    return {
        **{
            sink.name: spec(
                topic_key(pipeline, sink.name),
                "transactional",
                f"The outputs of **{name}** for the records of `{source}`, in Kafka transactions, exactly once.",
                RECORD,
                pipeline.freshness,
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
