"""The last evaluations of a pipeline's checks, from Dagster's event log."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.checks import audit_check_key, invariants
from eos_assets.orchestration.keys import sink_keys


@dataclass(frozen=True)
class FailedCheck:
    """A check that does not hold, with its finding."""

    name: str
    detail: str
    #: The source partitions that were checked.
    partitions: tuple[int, ...] = ()
    #: The first counter-example; empty if there is none.
    example: str = ""

    @staticmethod
    def of(evaluation: dg.AssetCheckEvaluation) -> "FailedCheck":
        partitions = {row.get("partition") for row in table_rows(evaluation, "partitions")}
        examples = [str(row["example"]) for row in table_rows(evaluation, "counter_examples")]
        return FailedCheck(
            evaluation.check_name,
            evaluation.description or "",
            tuple(sorted(partition for partition in partitions if isinstance(partition, int))),
            examples[0] if examples else "",
        )

    def __str__(self) -> str:
        example = f" (for example {self.example})" if self.example else ""
        return f"{self.name}: {self.detail}{example}"


@dataclass
class CheckStatus:
    """The checks that do not hold, and the names of those whose status is not known."""

    failed: list[FailedCheck] = field(default_factory=list)
    #: Checks that an active run will evaluate.
    pending: list[str] = field(default_factory=list)
    #: The names of failed checks that hold back what is downstream.
    blocking: list[str] = field(default_factory=list)
    #: Checks whose run ended before it evaluated them, and the id of that run.
    interrupted: dict[str, str] = field(default_factory=dict)


def load_check_status(
    instance: dg.DagsterInstance, pipelines: Iterable[Pipeline], *, tables: bool = False
) -> CheckStatus:
    """Load the status of the checks of the sinks and, with `tables`, of the audit tables, without warnings."""
    pipelines = list(pipelines)
    keys = [
        dg.AssetCheckKey(sink_keys(pipeline)[0], name)
        for pipeline in pipelines
        for name in (*invariants(pipeline), *(check.name for check in pipeline.checks))
    ]
    if tables:
        keys += [audit_check_key(pipeline) for pipeline in pipelines]
    alerting_only = {check.name for pipeline in pipelines for check in pipeline.checks if not check.blocking}
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys) if keys else {}
    ended = {record.run_id: has_ended(instance, record.run_id) for record in records.values()}
    status = CheckStatus()
    for key, record in sorted(records.items(), key=lambda item: item[0].name):
        event = record.event.dagster_event if record.event else None
        if event is None or event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            if ended[record.run_id]:
                status.interrupted[key.name] = record.run_id
            else:
                status.pending.append(key.name)
            continue
        evaluation = event.asset_check_evaluation_data
        if not evaluation.passed and evaluation.severity == dg.AssetCheckSeverity.ERROR:
            status.failed.append(FailedCheck.of(evaluation))
            if key.name not in alerting_only:
                status.blocking.append(key.name)
    return status


def has_ended(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    return run is None or run.is_finished


def table_rows(evaluation: dg.AssetCheckEvaluation, name: str) -> list[dict[str, object]]:
    """The rows of a table in the metadata of an evaluation; none if it has no such table."""
    table = evaluation.metadata.get(name)
    return [dict(record.data) for record in table.records] if isinstance(table, dg.TableMetadataValue) else []
