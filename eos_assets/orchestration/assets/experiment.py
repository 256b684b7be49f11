"""The experiment as an asset with a job of its own: its report is metadata, with the picture in it."""

from dataclasses import replace
from typing import Any

import dagster as dg

from eos_assets.declare.modes import Mode
from eos_assets.errors import EosError
from eos_assets.experiment.matrix import QUICK, SEED, Experiment, Matrix, run_experiment
from eos_assets.experiment.report import markdown_picture, markdown_table
from eos_assets.experiment.verdict import problems
from eos_assets.orchestration.assets.source_topic import OWNERS
from eos_assets.orchestration.assets.transactional_topic import told
from eos_assets.orchestration.jobs import EXECUTOR
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.spark import SparkResource


class ExperimentConfig(dg.Config):
    """What is compared; what is left out is as in `eos experiment`."""

    modes: list[str] | None = None
    probabilities: list[float] | None = None
    kinds: list[str] | None = None
    records: int | None = None
    partitions: int | None = None
    max_attempts: int | None = None
    seed: int = SEED
    quick: bool = False

    def matrix(self) -> Matrix:
        lists = {"probabilities": self.probabilities, "kinds": self.kinds, "modes": self.modes and modes(self.modes)}
        numbers = {"records": self.records, "partitions": self.partitions, "max_attempts": self.max_attempts}
        chosen: dict[str, Any] = {name: tuple(value) for name, value in lists.items() if value is not None}
        chosen |= {name: value for name, value in numbers.items() if value is not None}
        return replace(QUICK if self.quick else Matrix(), seed=self.seed, **chosen)


def modes(names: list[str]) -> list[Mode]:
    try:
        return [Mode(name) for name in names]
    except ValueError as error:
        raise EosError(f"There is no delivery mode: {error}.", f"Use some of {', '.join(Mode)}.") from error


@dg.asset(
    description="The same failures under three deliveries, and what each did to the records.",
    group_name="experiment",
    kinds={"kafka", "spark"},
    owners=OWNERS,
    tags={"layer": "experiment"},
)
def experiment(
    context: dg.AssetExecutionContext, config: ExperimentConfig, kafka: KafkaResource, spark: SparkResource
) -> dg.MaterializeResult[None]:
    matrix = told(config.matrix)
    result = told(
        lambda: run_experiment(
            matrix, spark.spark_session, kafka.connection(), lambda done, cell: context.log.info(f"{done}: {cell}")
        )
    )
    found = problems(result.results)
    if found:
        raise dg.Failure("; ".join(found), metadata=metadata(result), allow_retries=False)
    return dg.MaterializeResult(metadata=metadata(result))


def metadata(result: Experiment) -> dict[str, Any]:
    """The picture, the tables, and a number for each kind of harm: the UI plots those over time."""
    figures: dict[str, Any] = {
        "picture": dg.MetadataValue.md(markdown_picture(result)),
        "table": dg.MetadataValue.md(markdown_table(result)),
        "seconds": result.seconds,
        "seed": result.matrix.seed,
    }
    for mode in result.matrix.modes:
        accounts = [r.account for r in result.results if r.cell.mode is mode]
        figures[f"{mode}_doubled"] = sum(account.duplicates for account in accounts)
        figures[f"{mode}_lost"] = sum(account.lost for account in accounts)
    return figures


def experiment_definitions() -> dg.Definitions:
    job = dg.define_asset_job(
        "experiment_job",
        selection=dg.AssetSelection.assets(experiment),
        description="Compares the three deliveries under the same failures; fails if the comparison does not hold.",
        executor_def=EXECUTOR,
    )
    return dg.Definitions(assets=[experiment], jobs=[job])
