"""Repair a pipeline: run the transform on the source records in question, and write what is missing."""

import logging
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.errors import MEANINGS, Code, EosError, Reaction
from eos_assets.log.ranges import OffsetRange
from eos_assets.repair.outputs import returned_rows
from eos_assets.repair.plan import RepairPlan, origins
from eos_assets.run.job import collect
from eos_assets.run.partition_alignment import align_to_source
from eos_assets.run.plan import Planner
from eos_assets.run.preflight.preflight import run_preflight
from eos_assets.run.refusals import refusal
from eos_assets.run.run import RunOptions, job_runner
from eos_assets.sink.job import Job, NoFaults
from eos_assets.sink.outcome import NO_PARTITION, Outcome
from eos_assets.sink.repair import ANYWHERE, PartitionRepair, repairing
from eos_assets.sink.task import writing_task
from eos_assets.transform.arrow_batches import arrow_batch_limit
from eos_assets.transform.determinism import check_determinism
from eos_assets.transform.source import read_records
from eos_assets.transform.spark_errors import classify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

#: How often a partition is tried.
MAX_ATTEMPTS = 5


@dataclass(frozen=True)
class RepairOptions:
    """What may be chosen for one repair."""

    faults: NoFaults = field(default_factory=NoFaults)
    #: A version of Spark to run on although it was not tested.
    accepted_spark: str | None = None
    #: The name of the repair in the ledger; default: a random one.
    run_id: str | None = None


@dataclass(frozen=True)
class RepairReport:
    """What one repair did: the last outcome of each source partition."""

    run: str
    outcomes: list[Outcome]
    failures: list[str]

    @property
    def complete(self) -> bool:
        return all(outcome.reaction is Reaction.DONE for outcome in self.outcomes)


def apply_repair(plan: RepairPlan, options: RepairOptions | None = None) -> RepairReport:
    """Write what the plan names, one transaction per source partition. What another repair has written since is left
    out, so it is harmless to apply a plan twice."""
    options = options or RepairOptions()
    context, run = plan.context, options.run_id or uuid.uuid4().hex[:12]
    preflight = run_preflight(context, Planner(context, None, None, None), options.accepted_spark)
    template = job_runner(context, RunOptions(faults=options.faults), preflight, run).template
    left, outcomes, failures = dict(plan.repairs), dict[int, Outcome](), list[str]()
    for attempt in range(1, MAX_ATTEMPTS + 1):
        if not left:
            break
        try:
            results = write(context, template, left, attempt)
        except EosError:
            raise
        except Exception as failure:
            failures.append(react(context, failure))
            continue
        outcomes |= {outcome.partition: outcome for outcome in results}
        retried = [o for o in results if o.reaction in (Reaction.RETRY, Reaction.ISOLATE)]
        failures += [outcome.reason for outcome in retried]
        left = {outcome.partition: left[outcome.partition] for outcome in retried}
    outcomes |= {p: gave_up(p, failures[-1]) for p in left}
    report = RepairReport(run, [outcomes[p] for p in sorted(outcomes)], failures)
    log_result(context, report)
    return report


def write(context: PipelineContext, template: Job, repairs: dict[int, PartitionRepair], attempt: int) -> list[Outcome]:
    """Write these repairs in one Spark job."""
    pipeline = context.pipeline
    job = replace(template, ranges={p: OffsetRange(p, *ANYWHERE) for p in repairs}, run_attempt=attempt)
    records = read_origins(context, repairs)
    rows = returned_rows(pipeline, records)
    check_determinism(pipeline, records, [rows])
    with arrow_batch_limit(context.spark, fast=False):
        outcomes = collect(
            align_to_source(rows, writing_task(job, repairing(repairs)), pipeline, len(repairs)).outcomes
        )
    for outcome in outcomes:
        if outcome.partition == NO_PARTITION:
            raise refusal(context, Code(outcome.code), outcome.reason, outcome.reason)
    if silent := sorted(set(repairs) - {outcome.partition for outcome in outcomes}):
        raise EosError(
            f"The transform of {pipeline.name} returned nothing for the source records of partition {silent[0]} that "
            "are to be repaired. Nothing was written there.",
            "Plan the repair again.",
        )
    return outcomes


def read_origins(context: PipelineContext, repairs: dict[int, PartitionRepair]) -> "DataFrame":
    """The source records in question, and no others: a transform may fetch something for each."""
    from pyspark.sql import functions as f

    offsets = {p: origins(one) for p, one in repairs.items()}
    ranges = [OffsetRange(p, wanted[0], wanted[-1] + 1) for p, wanted in offsets.items()]
    records = read_records(context.spark, context.kafka, context.names.source, ranges)
    rows = [(p, offset) for p, wanted in offsets.items() for offset in wanted]
    chosen = context.spark.createDataFrame(rows, "source_partition int, source_offset long")
    same = (records["origin.partition"] == chosen["source_partition"]) & (
        records["origin.offset"] == chosen["source_offset"]
    )
    return records.join(f.broadcast(chosen), same, "left_semi")


def react(context: PipelineContext, failure: Exception) -> str:
    """React to a job that Spark gave up: the failure in words if it may be tried again."""
    reported = classify(failure)
    if reported.code is Code.TRANSFORM_RAISED:
        raise EosError(
            f"The transform of {context.pipeline.name} raises on a source record that is to be repaired: "
            f"{reported.described}. Nothing was written.",
            "Correct it, and plan the repair again.",
        ) from failure
    if MEANINGS[reported.code].reaction is Reaction.STOP:
        raise refusal(context, reported.code, reported.message, reported.described) from failure
    return reported.described


def gave_up(partition: int, reason: str) -> Outcome:
    return Outcome(partition, MEANINGS[Code.GAVE_UP].outcome, 0, 0, reason=reason, code=Code.GAVE_UP)


def log_result(context: PipelineContext, report: RepairReport) -> None:
    for outcome in report.outcomes:
        level = logging.INFO if outcome.reaction is Reaction.DONE else logging.WARNING
        logger.log(
            level,
            "repair of partition %d of %s: %s, %d outputs, %d dead letters, %d skips %s",
            *(outcome.partition, context.pipeline.name, outcome.outcome, outcome.records_out, outcome.dead),
            *(outcome.skipped, outcome.reason),
            extra={"pipeline": context.pipeline.name, "run": report.run, "partitions": [outcome.partition]},
        )
