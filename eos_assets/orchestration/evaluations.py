"""How the checks of a pipeline stand: their last evaluations, from Dagster's event log."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.checks import audit_check_key, invariants
from eos_assets.orchestration.keys import sink_keys


@dataclass
class Evaluations:
    """Names of checks that failed, of those that a run is about to evaluate, and of those whose run ended before."""

    failed: list[str] = field(default_factory=list)
    awaited: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def last_evaluations(
    instance: dg.DagsterInstance, pipelines: Iterable[Pipeline], *, tables: bool = False
) -> Evaluations:
    """Of what guards the sinks and, if wanted, of the check of the tables. Warnings are left out: they ask for a look,
    not for another try."""
    pipelines = list(pipelines)
    keys = [
        dg.AssetCheckKey(sink_keys(pipeline)[0], name)
        for pipeline in pipelines
        for name in (*invariants(pipeline), *(check.name for check in pipeline.checks))
    ]
    if tables:
        keys += [audit_check_key(pipeline) for pipeline in pipelines]
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys) if keys else {}
    found, ended = Evaluations(), {record.run_id: has_ended(instance, record.run_id) for record in records.values()}
    for key, record in sorted(records.items(), key=lambda item: item[0].name):
        event = record.event.dagster_event if record.event else None
        if event is None or event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            (found.lost if ended[record.run_id] else found.awaited).append(key.name)
            continue
        evaluation = event.asset_check_evaluation_data
        if not evaluation.passed and evaluation.severity == dg.AssetCheckSeverity.ERROR:
            found.failed.append(key.name)
    return found


def has_ended(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    return run is None or run.is_finished
