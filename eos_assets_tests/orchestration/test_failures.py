"""Which failed runs Dagster repeats: by its own settings, except where that heals nothing."""

from pathlib import Path

import dagster as dg
import pytest
import yaml

from eos_assets.errors import EosError
from eos_assets.orchestration.failures import MAX_RETRIES, eos_errors_as_failures
from eos_assets.platform.project import project_root

ROOT = project_root(Path(__file__).parent)


@pytest.mark.parametrize("file", ["eos_assets/local/dagster.yaml", "docker/dagster.yaml"])
def test_dagster_repeats_failed_runs_in_a_new_process(file: str) -> None:
    assert yaml.safe_load((ROOT / file).read_text())["run_retries"] == {
        "enabled": True,
        "max_retries": 2,
        "retry_on_asset_or_op_failure": True,
    }


@pytest.mark.parametrize("file", ["eos_assets/local/dagster.yaml", "docker/dagster.yaml"])
def test_dagster_evaluates_freshness(file: str) -> None:
    assert yaml.safe_load((ROOT / file).read_text())["freshness"] == {"enabled": True}


@pytest.mark.parametrize(
    ("error", "tag"),
    [(EosError("Topic t does not exist.", "Create it."), "0"), (RuntimeError("Spark has ended"), None)],
)
def test_a_run_that_fails_with_a_remedy_is_not_repeated(error: Exception, tag: str | None) -> None:
    @dg.asset
    def topic(context: dg.AssetExecutionContext) -> None:
        with eos_errors_as_failures(context):
            raise error

    with dg.DagsterInstance.ephemeral() as instance:
        failed = dg.materialize([topic], instance=instance, raise_on_error=False)
        run = instance.get_run_by_id(failed.run_id)
    assert not failed.success
    assert run is not None
    assert run.tags.get(MAX_RETRIES) == tag
