"""Stateful pipelines whose writers are killed at each step, and again and again: state and outputs stay right."""

from eos_assets.declare.options import Batching
from eos_assets.experiment.faults import Faults
from eos_assets.run.preview import preview
from eos_assets.sink.job import FAILPOINTS
from eos_assets_tests.pipelines.bank import Bank, own_balances, random_transactions
from eos_assets_tests.run.lab import Lab, MakeLab
from eos_assets_tests.state.counting import assert_counted, entries, make_records, send
from eos_assets_tests.state.folds import declare_sliding


def test_after_a_kill_at_each_step_every_balance_is_right_to_the_cent(make_lab: MakeLab) -> None:
    bank = Bank(make_lab(pipeline=own_balances()))
    for seed, failpoint in enumerate(FAILPOINTS):
        bank.send(random_transactions(bank, 50, seed))
        report = bank.lab.run(Faults(failpoint=failpoint, action="exit"))
        assert report.complete, failpoint
        assert max(outcome.task_attempt for outcome in report.outcomes) == 1, f"a worker has died {failpoint}"
    assert bank.rejected, "some must go below the lowest balance"
    bank.assert_booked()
    findings = bank.lab.verify()
    assert {name for name, finding in findings.items() if not finding.holds} == set()
    assert findings["balances_are_sums"].detail == "every balance is the sum of the account's transactions"
    uncommitted = bank.lab.read(bank.lab.pipeline.names().changelog, "read_uncommitted")
    committed = bank.lab.read(bank.lab.pipeline.names().changelog)
    assert len(committed) < len(uncommitted), "the killed attempts had written state, and none of it is visible"


def test_transactions_killed_midway_give_what_plain_python_counts_and_every_invariant_holds(make_lab: MakeLab) -> None:
    lab = make_lab(pipeline=declare_sliding(batching=Batching(records=40)))
    send(lab, [*make_records(150), (b"a", b"close"), *make_records(50, 1)])
    report = lab.run(Faults(probability=0.4, seed=7, failpoint="before_commit", action="exit"), max_attempts=30)
    assert report.complete
    first_job = {entry.task_attempt for entry in report.entries if entry.run_attempt == 1}
    assert 0 not in first_job, "no first attempt of a task has survived"
    assert report.attempts > 1
    assert_counted(lab)
    assert max(entry.next - entry.start for entry in entries(lab)) <= 40, "the plan does the cutting"
    findings = lab.verify()
    assert {n for n, finding in findings.items() if not finding.holds} <= {"source_is_unique"}
    assert "keys, the state of each as folding again gives it" in findings["state_recomputes"].detail
    assert findings["values_recompute"].evaluated
    abort(lab)
    send(lab, make_records(10, 2))
    shown = preview(lab.pipeline, lab.spark, lab.connection, 10)
    lab.run()
    abort(lab)
    again = preview(lab.pipeline, lab.spark, lab.connection, 10)
    written = {(m.key(), m.value()) for m in lab.read()}
    for some_records in (shown, again):
        assert some_records, "aborted ones hide none"
        outputs = {(bytes(p.source.key), bytes(p.results[0].value)) for p in some_records}
        assert outputs <= written, "what a preview shows comes"


def abort(lab: Lab) -> None:
    """More aborted records in each partition than a preview shows."""
    for partition in lab.connection.partitions(lab.source):
        lab.produce_transaction([b"1"] * 20, commit=False, partition=partition)
