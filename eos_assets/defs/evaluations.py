"""How the checks of a pipeline stand: their last evaluations, from Dagster's event log."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import dagster as dg

from eos_assets.defs.checks import facts
from eos_assets.defs.keys import sink_keys
from eos_assets.exactly_once.pipeline import Pipeline


@dataclass
class Evaluations:
    """Names of checks that failed, and of checks that were planned and have not been evaluated, or never were."""

    failed: list[str] = field(default_factory=list)
    awaited: list[str] = field(default_factory=list)


def last_evaluations(instance: dg.DagsterInstance, pipelines: Iterable[Pipeline]) -> Evaluations:
    """Warnings are left out: they ask for a look, not for another try."""
    keys = [
        dg.AssetCheckKey(sink_keys(pipeline)[0], name)
        for pipeline in pipelines
        for name in (*facts(pipeline), *(fact.name for fact in pipeline.facts))
    ]
    found = Evaluations()
    for key, record in instance.event_log_storage.get_latest_asset_check_execution_by_key(keys).items():
        event = record.event.dagster_event if record.event else None
        if event is None or event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            found.awaited.append(key.name)
            continue
        evaluation = event.asset_check_evaluation_data
        if not evaluation.passed and evaluation.severity == dg.AssetCheckSeverity.ERROR:
            found.failed.append(key.name)
    return Evaluations(sorted(found.failed), sorted(found.awaited))
