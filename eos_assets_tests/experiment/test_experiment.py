"""The experiment on a real broker and a real Spark: the quick variant, its classification, its command and its job."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from eos_assets.cli import experiment as command
from eos_assets.cli.experiment import experiment_command
from eos_assets.declare.modes import Mode
from eos_assets.errors import EosError
from eos_assets.experiment.cell import Cell, Result
from eos_assets.experiment.cell_runner import CellRunner
from eos_assets.experiment.classification import find_anomalies
from eos_assets.experiment.matrix import QUICK, Experiment, Matrix, run_experiment
from eos_assets.experiment.observation import SinkObservation
from eos_assets.kafka.connection import Connection
from eos_assets.orchestration.assets.experiment import experiment_definitions
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets_tests.cli.command import eos
from eos_assets_tests.experiment.samples import typical_experiment

#: The first test that uses the fixture pays for it, and a loaded machine is not a bug.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def quick(spark: SparkSession, connection: Connection) -> Iterator[Experiment]:
    """The quick variant, run once for all tests. It leaves no topics."""
    before = set(connection.metadata().topics)
    yield run_experiment(QUICK, spark, connection)
    left = set(connection.metadata().topics) - before
    assert not {topic for topic in left if "experiment" in topic}


def results_of(experiment: Experiment, mode: Mode, **wanted: Any) -> list[Result]:
    results = [r for r in experiment.results if r.cell.mode is mode]
    return [r for r in results if all(getattr(r.cell, name) == value for name, value in wanted.items())]


def test_under_the_same_failures_the_first_loses_the_second_doubles_and_the_third_does_neither(
    quick: Experiment,
) -> None:
    assert find_anomalies(quick.results) == []
    assert len(quick.results) == 18
    for result in quick.results:
        observation, cell = result.observation, result.cell
        if cell.mode is Mode.EXACTLY_ONCE:
            assert observation.exact
            assert (observation.aborted > 0) == cell.harmful
        else:
            assert (observation.lost > 0) == (cell.harmful and cell.mode is Mode.AT_MOST_ONCE)
            assert (observation.duplicates > 0) == (cell.harmful and cell.mode is Mode.AT_LEAST_ONCE)
        assert result.complete != cell.hopeless
        assert (result.retries > 0) == (cell.probability > 0)


def test_with_probability_one_nothing_is_visible_unless_the_commit_came_first(quick: Experiment) -> None:
    for kind in ("before_commit", "kill"):
        (hopeless,) = results_of(quick, Mode.EXACTLY_ONCE, kind=kind, probability=1.0)
        assert not hopeless.complete
        assert (hopeless.observation.visible, hopeless.observation.undelivered) == (0, QUICK.records)
    (committed,) = results_of(quick, Mode.EXACTLY_ONCE, kind="after_commit", probability=1.0)
    assert committed.complete
    assert committed.observation.visible == QUICK.records


def test_the_classification_of_measured_results_can_fail(quick: Experiment) -> None:
    """Each mode under the name of another does not keep the promise of that one."""

    def renamed(mode: Mode, to: Mode) -> list[Result]:
        harmful = [result for result in results_of(quick, mode) if result.cell.harmful]
        return [replace(result, cell=replace(result.cell, mode=to)) for result in harmful]

    for mode in Mode:
        for other in set(Mode) - {mode}:
            assert len(find_anomalies(renamed(mode, other))) >= 4, f"{mode} as {other}"


def test_the_same_seed_gives_the_same_counts(spark: SparkSession, connection: Connection) -> None:
    runner = CellRunner(spark, connection, "seeded", records=120, partitions=2, seed=5, max_attempts=40)
    cell = Cell(Mode.AT_LEAST_ONCE, "before_commit", 0.7)
    counted: list[tuple[SinkObservation, int, int]] = []
    with runner.sources(2):
        for number in range(2):
            result = runner.measure(cell, number)
            counted.append((result.observation, result.jobs, result.retries))
    assert counted[0] == counted[1]
    assert counted[0][0].duplicates > 0


@pytest.mark.parametrize(
    "wrong",
    [{"probabilities": (2.0,)}, {"kinds": ("never",)}, {"modes": ()}, {"records": 1, "partitions": 2}],
)
def test_a_matrix_that_cannot_be_measured_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(EosError):
        Matrix(**wrong)


def test_the_command_reports_each_cell_and_writes_the_report(connection: Connection, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    chosen = ("--modes", "at_least_once,exactly_once", "--probabilities", "1", "--kinds", "after_commit")
    small = ("--records", "60", "--partitions", "1", "--html", str(page), "--json")
    servers = connection.bootstrap_servers
    report = json.loads(
        eos("experiment", *chosen, *small, EOS_BOOTSTRAP_SERVERS=servers, EOS_SPARK="in-process").stdout
    )
    assert report["holds"]
    assert [(cell["mode"], cell["duplicates"], cell["lost"], cell["outcome"]) for cell in report["cells"]] == [
        ("at_least_once", 0, 0, "complete"),
        ("exactly_once", 0, 0, "complete"),
    ]
    assert all(cell["retries"] >= 2 for cell in report["cells"]), "one after each commit"
    assert report["cells"][0]["relative_time"] == 1.0
    assert page.read_text().startswith("<!doctype html>")


def test_the_command_fails_if_exactly_once_loses_or_a_baseline_mode_does_no_harm(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No real run gives such results, so they are constructed."""
    monkeypatch.setenv("EOS_BOOTSTRAP_SERVERS", connection.bootstrap_servers)
    good = typical_experiment()
    exact = [r for r in good.results if r.cell.mode is Mode.EXACTLY_ONCE]
    lossy = [replace(r, observation=replace(r.observation, lost=1)) for r in exact]
    harmless = [replace(r, cell=replace(r.cell, mode=Mode.AT_MOST_ONCE)) for r in exact if r.complete]
    for results, status in ((good.results, 0), (lossy, 1), (harmless, 1)):
        made = replace(good, results=results)
        monkeypatch.setattr(command, "run_experiment", lambda *_, made=made: made)
        assert CliRunner().invoke(experiment_command, ["--quick"]).exit_code == status


def test_a_list_with_an_unknown_name_is_refused_before_anything_runs() -> None:
    refused = eos("experiment", "--kinds", "before_commit,never", status=2)
    assert "never" in refused.stderr
    assert "2.5" in eos("experiment", "--probabilities", "2.5", status=1).stderr


def test_the_dagster_job_shows_the_table_and_the_charts(connection: Connection, spark: SparkSession) -> None:
    resources = {
        "kafka": KafkaResource(bootstrap_servers=connection.bootstrap_servers),
        "spark": SparkResource(address="in-process"),
    }
    definitions = dg.Definitions.merge(experiment_definitions(), dg.Definitions(resources=resources))
    small = {"probabilities": [0.5], "kinds": ["before_commit"], "records": 60, "partitions": 1, "seed": 14}
    with dg.DagsterInstance.ephemeral() as instance:
        result = definitions.resolve_job_def("experiment_job").execute_in_process(
            instance=instance, run_config={"ops": {"experiment": {"config": small}}}
        )
    (event,) = result.get_asset_materialization_events()
    metadata = event.materialization.metadata
    assert str(metadata["picture"].value).startswith("![three deliveries under the same failures](data:image/svg+xml")
    assert "| exactly once | 1 | 0 | 0 |" in str(metadata["table"].value)
    assert (metadata["exactly_once_doubled"].value, metadata["exactly_once_lost"].value) == (0, 0)
    assert int(str(metadata["at_least_once_doubled"].value)) > 0
    assert int(str(metadata["at_most_once_lost"].value)) > 0


def test_the_dagster_job_fails_with_the_reason_if_nothing_can_be_compared(connection: Connection) -> None:
    resources = {
        "kafka": KafkaResource(bootstrap_servers=connection.bootstrap_servers),
        "spark": SparkResource(address="in-process"),
    }
    definitions = dg.Definitions.merge(experiment_definitions(), dg.Definitions(resources=resources))
    with dg.DagsterInstance.ephemeral() as instance:
        result = definitions.resolve_job_def("experiment_job").execute_in_process(
            instance=instance,
            run_config={"ops": {"experiment": {"config": {"modes": ["sometimes"]}}}},
            raise_on_error=False,
        )
    assert not result.success
    (failure,) = result.get_step_failure_events()
    assert "sometimes" in str(failure.step_failure_data.user_failure_data)
