"""What a proof shows missing is produced again, and only that. Then the next proof holds."""

import dagster as dg

from eos_assets.repair.plan import plan_repair
from eos_assets_tests.orchestration.platform import Platform
from eos_assets_tests.repair.holes import keys, repair, torn, without
from eos_assets_tests.run.forgery import NUMBERS, correct_outputs, forge
from eos_assets_tests.run.lab import MakeLab, both_kinds


@both_kinds
def test_what_is_missing_is_produced_again(make_lab: MakeLab) -> None:
    """Some records were never written. Others were, among them the first and the last one, and are not visible."""
    lab = make_lab(partitions=1)
    forge(lab, torn(0, 3, 19)(without(7, 11)(correct_outputs())))
    before = [(m.partition(), m.offset(), m.value()) for m in lab.read()]
    assert lab.broken() == {"none_missing", "ledger_matches_sink", "values_recompute"}
    plan = plan_repair(lab.context)
    assert [(one.origin, one.was_written) for one in plan.missing] == [
        (f"{lab.source}/0/{n}", n in (0, 3, 19)) for n in (0, 3, 7, 11, 19)
    ]
    assert (plan.unrepairable, plan.doubles) == ([], [])
    assert [(m.partition(), m.offset(), m.value()) for m in lab.read()] == before, "a plan writes nothing"
    report = repair(lab, plan)
    assert [(o.outcome, o.records_out) for o in report.outcomes] == [("committed", 5)]
    assert set(before) < {(m.partition(), m.offset(), m.value()) for m in lab.read()}
    assert keys(lab) == NUMBERS, "each once"
    assert lab.proof().holds
    assert lab.broken() == set()
    again = repair(lab, plan)
    assert [(o.outcome, o.records_out) for o in again.outcomes] == [("already_done", 0)], "the plan is old"
    assert plan_repair(lab.context).nothing_to_do
    lab.produce([b"20", b"21"])
    assert lab.run().complete, "a run goes on from the position of before"
    assert keys(lab) == [*NUMBERS, 20, 21]
    assert lab.broken() == set()


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
