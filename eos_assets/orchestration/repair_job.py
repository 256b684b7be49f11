"""The job that lists what a proof shows missing or doubled and, if asked to, produces again what is missing."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import dagster as dg
from pydantic import Field

from eos_assets.context import PipelineContext
from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.failures import eos_errors_as_failures
from eos_assets.orchestration.jobs import EXECUTOR
from eos_assets.orchestration.keys import pool_name, sink_keys
from eos_assets.orchestration.logs import forward_messages
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.orchestration.retries import MAX_RETRIES
from eos_assets.platform.settings import Settings
from eos_assets.repair.plan import RepairPlan, plan_repair
from eos_assets.repair.repair import RepairOptions, apply_repair

#: The most rows of a table in the metadata.
SHOWN = 100


class RepairConfig(dg.Config):
    """Whether to write."""

    apply: bool = Field(default=False, description="Write what is missing; without it, it is only listed.")


def repair_job(pipeline: Pipeline) -> dg.JobDefinition:
    """The job of one pipeline. It never runs beside a run of the pipeline, because it shares its pool."""
    name = f"{pipeline.name}_repair"

    @dg.op(name=f"{name}_missing", pool=pool_name(pipeline), description="Lists what is missing, and may write it.")
    def repair(
        context: dg.OpExecutionContext, config: RepairConfig, kafka: KafkaResource, spark: SparkResource
    ) -> None:
        pipeline_context = PipelineContext(pipeline, spark.spark_session, kafka.connection())
        accepted = Settings.load().accept_spark
        with eos_errors_as_failures(context), forward_messages(context.log):
            plan = plan_repair(pipeline_context)
            report = None
            if config.apply and plan.repairs:
                report = apply_repair(plan, RepairOptions(accepted_spark=accepted, run_id=context.run_id))
        metadata = plan_metadata(plan)
        if report:
            metadata["outcomes"] = table([outcome.row() for outcome in report.outcomes])
        context.log_event(dg.AssetObservation(asset_key=sink_keys(pipeline)[0], metadata=metadata))
        if report and not report.complete:
            reasons = "; ".join(f"partition {o.partition}: {o.reason}" for o in report.outcomes if o.reason)
            raise dg.Failure(f"{pipeline.name} was not repaired: {reasons}", allow_retries=False)

    @dg.job(
        name=name,
        description=f"Lists what a proof of {pipeline.name} shows missing or doubled; with `apply`, writes what is "
        "missing.",
        executor_def=EXECUTOR,
        tags={MAX_RETRIES: "0"},
    )
    def job() -> None:
        repair()

    return job


def plan_metadata(plan: RepairPlan) -> dict[str, Any]:
    """What is missing, what cannot be produced again, and what readers have to skip."""
    metadata: dict[str, Any] = {"broken": ", ".join(plan.broken) or "nothing"}
    for name, rows in (("missing", plan.missing), ("unrepairable", plan.unrepairable), ("doubles", plan.doubles)):
        metadata[name] = len(rows)
        if rows:
            metadata[f"{name}_listed"] = table([asdict(row) for row in rows[:SHOWN]])
    return metadata


def table(rows: Sequence[dict[str, Any]]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table([dg.TableRecord(row) for row in rows])
