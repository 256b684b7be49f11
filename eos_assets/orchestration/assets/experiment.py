"""The experiment as an asset with a job of its own; its metadata is the report, with tables and charts."""

from dataclasses import replace
from typing import Any

import dagster as dg

from eos_assets.declare.modes import Mode
from eos_assets.errors import EosError
from eos_assets.experiment.cell import Cell
from eos_assets.experiment.classification import find_anomalies
from eos_assets.experiment.matrix import QUICK, SEED, Experiment, Matrix, run_experiment
from eos_assets.experiment.report import markdown_charts, markdown_table
from eos_assets.orchestration.failures import eos_errors_as_failures, refuse_retries
from eos_assets.orchestration.fill_job import fill_source
from eos_assets.orchestration.jobs import EXECUTOR
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.spark import SparkResource


class ExperimentConfig(dg.Config):
    """The parameters of the experiment. Their defaults are those of `eos experiment`."""

    modes: list[str] | None = None
    probabilities: list[float] | None = None
    kinds: list[str] | None = None
    records: int | None = None
    partitions: int | None = None
    max_attempts: int | None = None
    seed: int = SEED
    quick: bool = False

    def matrix(self) -> Matrix:
        modes = None if self.modes is None else parse_modes(self.modes)
        lists = {"modes": modes, "probabilities": self.probabilities, "kinds": self.kinds}
        numbers = {"records": self.records, "partitions": self.partitions, "max_attempts": self.max_attempts}
        chosen: dict[str, Any] = {name: tuple(values) for name, values in lists.items() if values is not None}
        chosen |= {name: value for name, value in numbers.items() if value is not None}
        return replace(QUICK if self.quick else Matrix(), seed=self.seed, **chosen)


def parse_modes(names: list[str]) -> list[Mode]:
    try:
        return [Mode(name) for name in names]
    except ValueError as error:
        problem = f"Experiment: modes={','.join(names)} is not valid."
        raise EosError(problem, f"Use some of {', '.join(Mode)}.") from error


@dg.asset(
    description="Three deliveries under the same failures, and how many records each lost or doubled.",
    group_name="experiment",
    kinds={"kafka", "spark"},
    tags={"layer": "experiment"},
)
def experiment(
    context: dg.AssetExecutionContext, config: ExperimentConfig, kafka: KafkaResource, spark: SparkResource
) -> dg.MaterializeResult[None]:
    def report_progress(done: int, cell: Cell) -> None:
        context.log.info(f"{done} cells are done, next: {cell}")

    with eos_errors_as_failures(context):
        result = run_experiment(config.matrix(), spark.spark_session, kafka.connection(), report_progress)
    anomalies = find_anomalies(result.results)
    if anomalies:
        refuse_retries(context)
        raise dg.Failure("; ".join(anomalies), metadata=metadata(result), allow_retries=False)
    return dg.MaterializeResult(metadata=metadata(result))


def metadata(result: Experiment) -> dict[str, Any]:
    """The charts, the tables, and a number for each kind of harm, which the UI plots over time."""
    figures: dict[str, Any] = {
        "picture": dg.MetadataValue.md(markdown_charts(result)),
        "table": dg.MetadataValue.md(markdown_table(result)),
        "seconds": result.seconds,
        "seed": result.matrix.seed,
    }
    for mode in result.matrix.modes:
        observations = [r.observation for r in result.results if r.cell.mode is mode]
        figures[f"{mode}_doubled"] = sum(observation.duplicates for observation in observations)
        figures[f"{mode}_lost"] = sum(observation.lost for observation in observations)
    return figures


def experiment_definitions() -> dg.Definitions:
    """The experiment, and the job that fills a source. They come with the pipeline `squares`, not with a user's own."""
    job = dg.define_asset_job(
        "experiment_job",
        selection=dg.AssetSelection.assets(experiment),
        description="Compares the three deliveries under the same failures; fails if the comparison does not hold.",
        executor_def=EXECUTOR,
    )
    return dg.Definitions(assets=[experiment], jobs=[job, fill_source])
