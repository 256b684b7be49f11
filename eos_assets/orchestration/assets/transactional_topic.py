"""The sink topics of a pipeline as assets, partitioned by Kafka partition: one Spark job for many partitions."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.experiment.faults import Faults
from eos_assets.orchestration.assets.source_topic import OWNERS
from eos_assets.orchestration.keys import dead_letters_key, source_keys, topic_key
from eos_assets.orchestration.ledger_metadata import ledger_metadata
from eos_assets.orchestration.lineage import LEDGER, PROVENANCE, RECORD, schema
from eos_assets.orchestration.partitions import topic_partitions
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.platform.settings import Settings
from eos_assets.run.report import RunReport
from eos_assets.run.run import RunOptions, run_pipeline

Answer = TypeVar("Answer")


class RunConfig(dg.Config):
    """What may be chosen in the launchpad for one run."""

    max_records: int | None = None
    #: Source partition → where the run ends at the latest: a sensor says up to where the source is proven.
    upto: dict[str, int] | None = None
    max_attempts: int = 20
    failure_probability: float = 0.0
    #: before_commit, after_commit or kill.
    failure_kind: str = "before_commit"
    seed: int = 0
    #: The worker of this partition is killed once, in the middle of a transaction.
    kill_partition: int | None = None


def pool_of(pipeline: Pipeline) -> str:
    """One run at a time is politeness; fencing is the guarantee."""
    return f"eos_{pipeline.name}"


def transactional_topic(pipeline: Pipeline, declared: Sequence[Pipeline] = ()) -> dg.AssetsDefinition:
    """All that one transaction writes. A materialization brings the chosen partitions up to the last stable offset."""
    specs = topic_specs(pipeline, declared)

    @dg.multi_asset(
        specs=list(specs.values()),
        name=pipeline.name,
        partitions_def=topic_partitions(pipeline.source.name),
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=pool_of(pipeline),
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
        options = RunOptions(
            partitions=partitions,
            max_records=config.max_records,
            upto=None if config.upto is None else {p: config.upto.get(str(p), 0) for p in partitions},
            max_attempts=config.max_attempts,
            faults=told(lambda: failures(config)),
            lake=lake.address() if pipeline.stateful else None,
            accepted_spark=Settings.load().accept_spark,
            say=context.log.warning,
        )
        report = told(lambda: run_pipeline(pipeline, spark.spark_session, kafka.connection(), options))
        if not report.complete:
            for partition in sorted({entry.partition for entry in report.entries}):
                for topic, spec in specs.items():  # the run failed, and this was committed all the same
                    metadata = ledger_metadata(pipeline, report, partition, topic, context.run.run_id)
                    yield dg.AssetMaterialization(spec.key, partition=str(partition), metadata=metadata)
            raise dg.Failure(why(report), allow_retries=True)
        for partition in context.partition_keys:
            for topic, spec in specs.items():
                metadata = ledger_metadata(pipeline, report, int(partition), topic, context.run.run_id)
                if spec.key in context.selected_asset_keys:
                    context.add_asset_metadata(metadata, spec.key, partition)
                else:  # nobody asked for it, and it was written all the same: in the same transactions
                    context.log_event(dg.AssetMaterialization(spec.key, partition=partition, metadata=metadata))
        for key in context.selected_asset_keys:
            yield dg.MaterializeResult(asset_key=key)

    return materialize


def topic_specs(pipeline: Pipeline, declared: Sequence[Pipeline]) -> dict[str, dg.AssetSpec]:
    """Topic → its asset: the sinks, the dead letters, and what is written about them in the same transaction."""
    name, source, names = pipeline.name, pipeline.source.name, pipeline.names()
    beside = [topic_key(pipeline, sink.name).to_user_string() for sink in pipeline.sinks]

    def spec(key: dg.AssetKey, layer: str, description: str, columns: dict[str, str]) -> dg.AssetSpec:
        return dg.AssetSpec(
            key,
            deps=source_keys(pipeline, declared),
            skippable=True,
            description=description,
            metadata={"dagster/column_schema": schema(columns)},
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
                f"What **{name}** makes of `{source}`, in Kafka transactions, exactly once.\n\n"
                f"{inspect.getdoc(pipeline.transform) or ''}",
                RECORD,
            )
            for sink in pipeline.sinks
        },
        names.dead_letters: spec(
            dead_letters_key(pipeline),
            "dead_letters",
            f"The records of `{source}` that **{name}** rejected, with their own bytes and the reason.",
            RECORD,
        ),
        names.ledger: spec(
            dg.AssetKey(names.ledger),
            "ledger",
            f"The one truth about **{name}**: an entry per committed transaction, written inside it.",
            LEDGER,
        ),
        names.provenance: spec(
            dg.AssetKey(names.provenance),
            "provenance",
            f"Which record of {' and '.join(beside)} came from which record of `{source}`, written in the same "
            "transaction.",
            PROVENANCE,
        ),
    }


def failures(config: RunConfig) -> Faults:
    chance = Faults(config.failure_probability, config.seed, kind=config.failure_kind)
    if config.kill_partition is None:
        return chance
    return replace(chance, failpoint="mid_produce", action="exit", partition=config.kill_partition)


def told(work: Callable[[], Answer]) -> Answer:
    """A user's mistake is a failure with its remedy, not a stack trace."""
    try:
        return work()
    except EosError as error:
        raise dg.Failure(f"{error.problem} {error.remedy}", allow_retries=False) from error


def why(report: RunReport) -> str:
    reasons = [f"partition {o.partition}: {o.reason}" for o in report.outcomes if o.reason]
    given = "; ".join([*report.failures[-1:], *reasons]) or "the attempts were used up"
    return f"{report.pipeline} did not reach its goal in {report.attempts} attempt(s): {given}"
