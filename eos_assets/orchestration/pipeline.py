"""Everything that Dagster shows of the declared pipelines, from one call."""

from collections.abc import Iterable

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.assets.audit_tables import audit_tables
from eos_assets.orchestration.assets.source_topic import source_topic
from eos_assets.orchestration.assets.state_snapshot import state_snapshot
from eos_assets.orchestration.assets.transactional_topic import transactional_topic
from eos_assets.orchestration.checks import audit_check, declared_check, invariant_checks
from eos_assets.orchestration.jobs import checks_job, fill_source, run_job
from eos_assets.orchestration.keys import writers_of, written_topics
from eos_assets.orchestration.sensors import failed_checks, new_records
from eos_assets.orchestration.stuck import stuck


def pipeline_definitions(pipelines: Iterable[Pipeline]) -> dg.Definitions:
    """Source topics, transactional topics, audit tables, checks, jobs and sensors."""
    declared = list(pipelines)
    written = {topic for pipeline in declared for topic in written_topics(pipeline)}
    readers: dict[str, list[Pipeline]] = {}
    for pipeline in declared:
        readers.setdefault(pipeline.source.name, []).append(pipeline)
    sources = [source_topic(topic, reading) for topic, reading in readers.items() if topic not in written]
    return dg.Definitions.merge(
        dg.Definitions(assets=sources, jobs=[fill_source]), *(one_pipeline(pipeline, declared) for pipeline in declared)
    )


def one_pipeline(pipeline: Pipeline, declared: list[Pipeline]) -> dg.Definitions:
    assets = [transactional_topic(pipeline, declared), audit_tables(pipeline, declared)]
    assets += [state_snapshot(pipeline)] if pipeline.stateful else []
    checks = [invariant_checks(pipeline), audit_check(pipeline)]
    checks += [declared_check(pipeline, check) for check in pipeline.checks]
    run, prove = run_job(pipeline, assets), checks_job(pipeline, checks)
    upstream = writers_of(pipeline.source.name, declared)
    return dg.Definitions(
        assets=assets,
        asset_checks=checks,
        jobs=[run, prove],
        sensors=[
            new_records(pipeline, run, upstream),
            failed_checks(pipeline, run, prove),
            stuck(pipeline),
        ],
    )
