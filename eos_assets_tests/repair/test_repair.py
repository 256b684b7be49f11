"""What a proof shows missing is produced again, and only that: the next proof holds, and doubles are listed."""

from collections.abc import Callable

import pytest

from eos_assets.repair.plan import RepairPlan, plan_repair
from eos_assets.repair.repair import RepairOptions, RepairReport, apply_repair
from eos_assets.sink.job import NoFaults
from eos_assets_tests.orchestration.test_mutants import changed
from eos_assets_tests.run.forgery import NUMBERS, Output, correct_outputs, forge
from eos_assets_tests.run.lab import ACCEPTED, Lab, MakeLab, both_kinds

Change = Callable[[list[Output]], list[Output]]


def repair(lab: Lab, plan: RepairPlan | None = None, faults: NoFaults | None = None) -> RepairReport:
    options = RepairOptions(faults=faults or NoFaults(), accepted_spark=ACCEPTED)
    return apply_repair(plan or plan_repair(lab.context), options)


def without(*numbers: int) -> Change:
    return lambda made: [output for output in made if output.number not in numbers]


HOLES: dict[str, Change] = {
    "a loss": without(7),
    "several losses": without(0, 7, 8, 19),
    "a torn transaction": changed(7, visible=False),
    "the first and the last record are torn": lambda made: changed(0, visible=False)(changed(19, visible=False)(made)),
    "both": lambda made: changed(3, visible=False)(without(11)(made)),
}


@both_kinds
@pytest.mark.parametrize("hole", HOLES.values(), ids=[name.replace(" ", "_") for name in HOLES])
def test_what_is_missing_is_produced_again(make_lab: MakeLab, hole: Change) -> None:
    lab = make_lab(partitions=1)
    forge(lab, hole(correct_outputs()))
    before = lab.read()
    assert "none_missing" in lab.broken()
    plan = plan_repair(lab.context)
    assert (plan.unrepairable, plan.doubles) == ([], [])
    report = repair(lab, plan)
    assert report.complete
    assert [outcome.outcome for outcome in report.outcomes] == ["committed"]
    after = lab.read()
    assert {(m.partition(), m.offset()) for m in before} < {(m.partition(), m.offset()) for m in after}
    assert sorted(int(m.key() or b"") for m in after) == NUMBERS, "each once: only what was missing was written"
    assert lab.broken() == set()
    assert lab.proof().holds
    assert lab.proof(full=True).holds
    assert plan_repair(lab.context).nothing_to_do
    lab.produce([b"20", b"21"])
    assert lab.run().complete, "a run goes on from the position of before"
    assert sorted(int(m.key() or b"") for m in lab.read()) == [*NUMBERS, 20, 21]
    assert lab.proof().holds
    assert lab.broken() == set()
