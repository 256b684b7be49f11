"""The sink topics of a pipeline as assets, partitioned by Kafka partition: one Spark job for many partitions."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import dagster as dg

from eos_assets.defs.partitions import topic_partitions
from eos_assets.defs.source_topic import OWNERS
from eos_assets.errors import EosError
from eos_assets.exactly_once.failures import Failures
from eos_assets.exactly_once.ledger import LedgerEntry
from eos_assets.exactly_once.names import Names
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.exactly_once.run import RunOptions, RunReport, run_pipeline
from eos_assets.resources.kafka import KafkaResource
from eos_assets.resources.lake import LakeResource
from eos_assets.resources.spark import SparkResource

Answer = TypeVar("Answer")


class RunConfig(dg.Config):
    """What may be chosen in the launchpad for one run."""

    max_records: int | None = None
    max_attempts: int = 20
    failure_probability: float = 0.0
    seed: int = 0
    #: The worker of this partition is killed once, in the middle of a transaction.
    kill_partition: int | None = None


def pool_of(pipeline: Pipeline) -> str:
    """One run at a time is politeness; fencing is the guarantee."""
    return f"eos_{pipeline.name}"


def sink_keys(pipeline: Pipeline) -> list[dg.AssetKey]:
    return [dg.AssetKey(sink.name) for sink in pipeline.sinks]


def transactional_topic(pipeline: Pipeline) -> dg.AssetsDefinition:
    """Sinks and dead letters. A materialization brings the chosen partitions up to the last stable offset."""
    written = f"What {pipeline.name} makes of {pipeline.source.name}, in Kafka transactions, exactly once."
    rejected = f"The records that {pipeline.name} rejected, with their own bytes and the reason."
    described = {
        **{sink.name: (written, "transactional") for sink in pipeline.sinks},
        pipeline.names().dead_letters: (rejected, "dead_letters"),
    }
    specs = [
        dg.AssetSpec(
            topic,
            deps=[dg.AssetKey(pipeline.source.name)],
            description=description,
            group_name=pipeline.name,
            owners=OWNERS,
            code_version=pipeline.code_version,
            kinds={"kafka", "spark"},
            tags={"layer": layer},
        )
        for topic, (description, layer) in described.items()
    ]

    @dg.multi_asset(
        specs=specs,
        name=pipeline.name,
        partitions_def=topic_partitions(pipeline.source.name),
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=pool_of(pipeline),
    )
    def materialize(
        context: dg.AssetExecutionContext,
        config: RunConfig,
        kafka: KafkaResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[dg.MaterializeResult[None]]:
        options = RunOptions(
            partitions=sorted(int(key) for key in context.partition_keys),
            max_records=config.max_records,
            max_attempts=config.max_attempts,
            failures=failures(config),
            lake=lake.address() if pipeline.stateful else None,
            say=context.log.warning,
        )
        report = told(lambda: run_pipeline(pipeline, spark.spark_session, kafka.connection(), options))
        if not report.complete:
            raise dg.Failure(why(report), allow_retries=True)
        for key in context.partition_keys:
            entries = [entry for entry in report.entries if entry.partition == int(key)]
            for spec in specs:
                context.add_asset_metadata(metadata(report, entries, spec.key, pipeline.names()), spec.key, key)
        for spec in specs:
            yield dg.MaterializeResult(asset_key=spec.key)

    return materialize


def failures(config: RunConfig) -> Failures:
    if config.kill_partition is None:
        return Failures(config.failure_probability, config.seed)
    return Failures(
        config.failure_probability,
        config.seed,
        failpoint="mid_produce",
        action="exit",
        partition=config.kill_partition,
    )


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


def metadata(report: RunReport, entries: list[LedgerEntry], key: dg.AssetKey, names: Names) -> dict[str, object]:
    """What the ledger says about one partition. Nothing new to do is a success that says so."""
    topic = key.path[-1]
    parts = [part for entry in entries for part in entry.sinks if part.topic == topic]
    seconds = max(0.001, report.seconds)
    figures: dict[str, object] = {
        "range": f"[{entries[0].start}, {entries[-1].next})" if entries else "nothing new",
        "records_in": sum(entry.records_in for entry in entries),
        "records_out": sum(part.count for part in parts),
        "skipped": sum(entry.skipped for entry in entries),
        "repeats": sum(entry.repeats for entry in entries),
        "dead": sum(entry.dead for entry in entries),
        "transactions": len(entries),
        "bytes": sum(entry.bytes_out for entry in entries),
        "records_per_second": sum(entry.records_in for entry in entries) / seconds,
        "attempts": report.attempts,
        "run": report.run,
    }
    if entries:
        last = entries[-1]
        figures["transactional_id"] = names.transactional_id(last.partition)
        figures["ledger"] = f"{names.ledger}/{last.partition}, entry from {last.start}"
        figures["offsets"] = ", ".join(f"{p.topic}/{p.partition}: {p.first} to {p.last}" for p in parts)
    return figures
