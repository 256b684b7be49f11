"""The Dagster definitions of declared pipelines: assets, checks, jobs and sensors."""

from collections.abc import Iterable

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.assets.audit_tables import audit_tables
from eos_assets.orchestration.assets.source_topic import source_topic
from eos_assets.orchestration.assets.state_snapshot import state_snapshot
from eos_assets.orchestration.assets.transactional_topic import RunConfig, transactional_topic
from eos_assets.orchestration.checks import audit_check, declared_check, invariant_checks
from eos_assets.orchestration.dead_letters import dead_letter_job
from eos_assets.orchestration.jobs import audit_job, checks_job, run_job
from eos_assets.orchestration.keys import writers_of, written_topics
from eos_assets.orchestration.repair_job import repair_job
from eos_assets.orchestration.sensors.alerts import check_alerts, run_alerts
from eos_assets.orchestration.sensors.audit_update import audit_update
from eos_assets.orchestration.sensors.failed_checks import failed_checks
from eos_assets.orchestration.sensors.new_records import new_records
from eos_assets.orchestration.sensors.other_commits import other_commits
from eos_assets.orchestration.sensors.stuck_partitions import stuck_partitions


def pipeline_definitions(pipelines: Iterable[Pipeline], run_config: type[RunConfig] = RunConfig) -> dg.Definitions:
    """The source topics, and for each pipeline its transactional topics, audit tables, checks, jobs and sensors."""
    declared = list(pipelines)
    written = {topic for pipeline in declared for topic in written_topics(pipeline)}
    readers: dict[str, list[Pipeline]] = {}
    for pipeline in declared:
        readers.setdefault(pipeline.source.name, []).append(pipeline)
    sources = [source_topic(topic, reading) for topic, reading in readers.items() if topic not in written]
    return dg.Definitions.merge(
        dg.Definitions(assets=sources),
        *(definitions_of(pipeline, declared, run_config) for pipeline in declared),
    )


def definitions_of(pipeline: Pipeline, declared: list[Pipeline], run_config: type[RunConfig]) -> dg.Definitions:
    run_assets = [transactional_topic(pipeline, declared, run_config)]
    run_assets += [state_snapshot(pipeline)] if pipeline.stateful else []
    tables = audit_tables(pipeline, declared)
    checks = [invariant_checks(pipeline), audit_check(pipeline)]
    checks += [declared_check(pipeline, check) for check in pipeline.checks]
    run, audit, evaluate = run_job(pipeline, run_assets), audit_job(pipeline, tables), checks_job(pipeline, checks)
    upstream = writers_of(pipeline.source.name, declared)
    return dg.Definitions(
        assets=[*run_assets, tables],
        asset_checks=checks,
        jobs=[run, audit, evaluate, repair_job(pipeline), dead_letter_job(pipeline)],
        sensors=[
            new_records(pipeline, run, upstream),
            audit_update(pipeline, audit),
            failed_checks(pipeline, evaluate),
            stuck_partitions(pipeline),
            other_commits(pipeline),
            run_alerts(pipeline, [run, audit, evaluate]),
            check_alerts(pipeline),
        ],
    )
