"""The jobs of a pipeline: its run, the update of its audit tables, and its checks alone."""

from typing import Any

import dagster as dg

from eos_assets.declare.pipeline import Pipeline

#: Dagster has no public name for a job that is not resolved yet.
AssetJob = Any
#: Spark sessions do not survive a fork, and one JVM per step would be slow.
EXECUTOR = dg.in_process_executor


def run_job(pipeline: Pipeline, assets: list[dg.AssetsDefinition]) -> AssetJob:
    """The job that materializes the transactional topic, and evaluates the checks of it."""
    return dg.define_asset_job(
        f"{pipeline.name}_job",
        selection=selection(assets),
        description=f"Runs {pipeline.name} and evaluates its checks.",
        executor_def=EXECUTOR,
    )


def audit_job(pipeline: Pipeline, tables: dg.AssetsDefinition) -> AssetJob:
    """The job that updates the audit tables and compares them with the ledger."""
    return dg.define_asset_job(
        f"{pipeline.name}_audit_job",
        selection=selection([tables]),
        description=f"Updates the audit tables of {pipeline.name} and compares them with the ledger.",
        executor_def=EXECUTOR,
    )


def checks_job(pipeline: Pipeline, checks: list[dg.AssetChecksDefinition]) -> AssetJob:
    """The job that evaluates all checks of a pipeline and writes no records."""
    return dg.define_asset_job(
        f"{pipeline.name}_checks",
        selection=dg.AssetSelection.checks(*checks),
        description=f"Evaluates every check of {pipeline.name} and writes no records.",
        executor_def=EXECUTOR,
    )


def selection(assets: list[dg.AssetsDefinition]) -> dg.AssetSelection:
    """These assets with their checks."""
    return dg.AssetSelection.assets(*(key for definition in assets for key in definition.keys))
