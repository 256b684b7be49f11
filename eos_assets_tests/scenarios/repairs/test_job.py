"""The job of Dagster lists what is missing, and writes it if asked to."""

import dagster as dg

from eos_assets_tests.orchestration.platform import Platform
from eos_assets_tests.repair.holes import keys, without
from eos_assets_tests.run.forgery import NUMBERS, correct_outputs, forge
from eos_assets_tests.run.lab import MakeLab


def test_the_job_in_dagster_lists_what_is_missing_and_writes_it_if_asked_to(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1)
    forge(lab, without(7)(correct_outputs()))
    with dg.DagsterInstance.ephemeral() as instance:
        platform = Platform(lab, instance, "")
        listed = run_job(platform, apply=False)
        assert listed["missing"].value == 1
        assert "outcomes" not in listed
        assert len(keys(lab)) == 19
        assert "outcomes" in run_job(platform, apply=True)
    assert keys(lab) == NUMBERS


def run_job(platform: Platform, *, apply: bool) -> dict[str, dg.MetadataValue]:
    """Run the job, and return the metadata of its observation."""
    name = f"{platform.pipeline.name}_repair"
    config = {"ops": {f"{name}_missing": {"config": {"apply": apply}}}}
    job = platform.defs.resolve_job_def(name)
    result = job.execute_in_process(instance=platform.instance, run_config=config)
    (observed,) = [event for event in result.all_events if event.event_type_value == "ASSET_OBSERVATION"]
    return dict(observed.asset_observation_data.asset_observation.metadata)
