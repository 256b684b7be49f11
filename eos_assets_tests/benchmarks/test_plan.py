"""The options of the command line choose what is measured, and whether the page may show it."""

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.contenders import DESCRIPTIONS, FLINK
from benchmarks.plan import QUICK, SECTIONS, Plan, plan_of
from benchmarks.workload import WORKLOADS


def test_without_options_everything_is_measured_and_written() -> None:
    plan = plan_of()
    assert (plan.sections, plan.contenders, list(plan.records)) == (SECTIONS, tuple(DESCRIPTIONS), list(WORKLOADS))
    assert plan.complete


def test_a_limit_of_records_holds_in_every_section() -> None:
    plan = plan_of(records=20_000)
    assert set(plan.records.values()) == {20_000}
    assert (plan.visibility_records, plan.transaction_records) == (20_000, (20_000, 20_000))
    assert plan.scaling == ((10_000, 3), (20_000, 3), (20_000, 1), (20_000, 12), (20_000, 24))


def test_rounds_and_warm_ups_hold_in_every_section() -> None:
    plan = plan_of(rounds=4, warm_ups=0)
    assert (plan.rounds, plan.few_rounds, plan.increment_rounds, plan.warm_ups) == (4, 4, 4, 0)


def test_a_quick_benchmark_may_have_another_workload() -> None:
    assert plan_of(quick=True) == QUICK
    assert plan_of(quick=True, workloads=["1KB"]).records == {"1KB": QUICK.records["integers"]}
    assert plan_of(workloads=["1KB"]).records == {"1KB": WORKLOADS["1KB"].records}


@pytest.mark.parametrize(
    ("plan", "complete"),
    [
        (plan_of(contenders=[FLINK]), False),
        (plan_of(quick=True), False),
        (plan_of(sections=["price"]), False),
        (plan_of(sections=["price", "throughput"]), True),
        (plan_of(sections=["scaling"]), True),
    ],
)
def test_the_page_shows_no_results_without_the_peers(plan: Plan, complete: bool) -> None:
    assert plan.complete is complete


def test_an_unknown_contender_is_refused_with_those_that_exist() -> None:
    result = CliRunner().invoke(main, ["--only", "storm"])
    assert result.exit_code == 2
    assert "'flink'" in result.output
