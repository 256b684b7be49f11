"""What a proof shows missing is produced again, and only that. Then the next proof holds."""

from eos_assets.repair.plan import plan_repair
from eos_assets_tests.repair.holes import keys, repair, torn, without
from eos_assets_tests.run.forgery import NUMBERS, correct_outputs, forge
from eos_assets_tests.run.lab import MakeLab, both_kinds


@both_kinds
def test_what_is_missing_is_produced_again(make_lab: MakeLab) -> None:
    """Some records were never written. Others were, among them the first and the last one, and are not visible."""
    lab = make_lab(partitions=1)
    forge(lab, torn(0, 3, 19)(without(7, 11)(correct_outputs())))
    before = [(m.partition(), m.offset(), m.value()) for m in lab.read()]
    plan = plan_repair(lab.context)
    assert plan.broken == ["none_missing", "ledger_matches_sink", "values_recompute"]
    assert [(one.origin, one.was_written) for one in plan.missing] == [
        (f"{lab.source}/0/{n}", n in (0, 3, 19)) for n in (0, 3, 7, 11, 19)
    ]
    assert (plan.unrepairable, plan.doubles) == ([], [])
    assert [(m.partition(), m.offset(), m.value()) for m in lab.read()] == before, "a plan writes nothing"
    report = repair(lab, plan)
    assert [(o.outcome, o.records_out) for o in report.outcomes] == [("committed", 5)]
    assert set(before) < {(m.partition(), m.offset(), m.value()) for m in lab.read()}
    assert keys(lab) == NUMBERS, "each once"
    assert lab.proof(full=True).holds
    again = repair(lab, plan)
    assert [(o.outcome, o.records_out) for o in again.outcomes] == [("already_done", 0)], "the plan is old"
    lab.produce([b"20", b"21"])
    assert lab.run().complete, "a run goes on from the position of before"
    assert keys(lab) == [*NUMBERS, 20, 21]
    proof = lab.proof()
    assert proof.holds
    assert proof.incremental
