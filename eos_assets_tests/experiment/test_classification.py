"""The classification finds nothing in what a delivery may do, and an anomaly in everything else."""

import pytest

from eos_assets.declare.modes import Mode
from eos_assets.experiment.cell import Result
from eos_assets.experiment.classification import find_anomalies
from eos_assets_tests.experiment.samples import result, typical_experiment

EO, ALO, AMO = Mode.EXACTLY_ONCE, Mode.AT_LEAST_ONCE, Mode.AT_MOST_ONCE


def test_each_delivery_may_do_what_it_promises() -> None:
    assert find_anomalies(typical_experiment().results) == []


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (result(EO, duplicates=1), "1 records doubled"),
        (result(EO, lost=2), "2 records lost"),
        (result(EO, out_of_order=3), "3 records out of order"),
        (result(EO, wrong=1), "not squares"),
        (result(EO, undelivered=1), "although the run reported that it is complete"),
        (result(EO, probability=1, complete=False, visible=5), "5 records are visible"),
        (result(EO, probability=0, complete=False), "it did not complete"),
        (result(EO, retries=0), "none struck"),
        (result(ALO), "doubled nothing"),
        (result(ALO, kind="kill"), "doubled nothing"),
        (result(ALO, duplicates=5, lost=1), "lost 1"),
        (result(ALO, probability=0, duplicates=5), "without failures"),
        (result(AMO), "lost nothing"),
        (result(AMO, kind="kill"), "lost nothing"),
        (result(AMO, lost=5, duplicates=1), "doubled 1"),
        (result(AMO, probability=0, lost=5), "without failures"),
    ],
)
def test_every_broken_promise_is_named(broken: Result, message: str) -> None:
    (anomaly,) = find_anomalies([broken])
    assert message in anomaly
    assert str(broken.cell.mode) in anomaly


def test_failures_after_the_commit_need_not_do_harm() -> None:
    assert find_anomalies([result(mode, kind="after_commit") for mode in (EO, ALO, AMO)]) == []


def test_undelivered_records_are_not_lost() -> None:
    assert find_anomalies([result(EO, probability=0.9, complete=False, visible=40, undelivered=60)]) == []
