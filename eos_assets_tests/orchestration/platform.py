"""The Dagster definitions of a pipeline on topics of its own, with an instance to run them in."""

from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.checks import AUDIT_CHECK
from eos_assets.orchestration.faulty_runs import FaultyRunConfig
from eos_assets.orchestration.partitions import add_new_partitions, range_tags
from eos_assets.orchestration.pipeline_definitions import pipeline_definitions
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets_tests.run.lab import Lab


@dataclass
class Platform:
    """The definitions of one lab and the instance in which they run."""

    lab: Lab
    instance: dg.DagsterInstance
    lake: str
    defs: dg.Definitions = field(init=False)

    def __post_init__(self) -> None:
        pipelines = pipeline_definitions([self.lab.pipeline], run_config=FaultyRunConfig)
        self.defs = dg.Definitions.merge(pipelines, dg.Definitions(resources=self.resources()))

    @property
    def pipeline(self) -> Pipeline:
        return self.lab.pipeline

    def resources(self) -> dict[str, Any]:
        return {
            "kafka": KafkaResource(bootstrap_servers=self.lab.connection.bootstrap_servers),
            "spark": SparkResource(address="in-process"),
            "lake": LakeResource(path=self.lake),
        }

    def materialize(self, first: int = 0, last: int | None = None, **config: Any) -> dg.ExecuteInProcessResult:
        """Run the job over a range of partitions."""
        add_new_partitions(self.instance, self.pipeline.source.name, self.lab.connection)
        last = self.pipeline.source.partitions - 1 if last is None else last
        return self.defs.resolve_job_def(f"{self.pipeline.name}_job").execute_in_process(
            instance=self.instance,
            run_config={"ops": {self.pipeline.name: {"config": config}}},
            tags=range_tags(first, last),
            raise_on_error=False,
        )

    def update_tables(self) -> dg.ExecuteInProcessResult:
        """Run the job that updates the audit tables and compares them with the ledger."""
        job = self.defs.resolve_job_def(f"{self.pipeline.name}_audit_job")
        return job.execute_in_process(instance=self.instance, raise_on_error=False)

    def materialize_all(self) -> dg.ExecuteInProcessResult:
        """Run the topics, the checks and the audit tables together, as a click on all assets does."""
        everything = self.defs.resolve_implicit_global_asset_job_def()
        chosen = self.defs.resolve_all_asset_keys()
        selection = {key for key in chosen if key != dg.AssetKey(self.pipeline.source.name)}
        last = self.pipeline.source.partitions - 1
        job = everything.get_subset(asset_selection=selection)
        return job.execute_in_process(instance=self.instance, tags=range_tags(0, last), raise_on_error=False)

    def check(self, *, full: bool = False) -> dict[str, dg.AssetCheckEvaluation]:
        """Run the checks alone."""
        name, depth = self.pipeline.name, {"config": {"full": full}}
        config = {"ops": {f"{name}_invariants": depth, f"{name}__audit_transactions_{AUDIT_CHECK}": depth}}
        job = self.defs.resolve_job_def(f"{name}_checks")
        result = job.execute_in_process(instance=self.instance, run_config=config, raise_on_error=False)
        return evaluations(result)


def evaluations(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}
