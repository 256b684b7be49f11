"""The loop of a run over plans and outcomes, without Kafka and Spark."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame

from eos_assets.context import PipelineContext
from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic
from eos_assets.errors import MEANINGS, Code
from eos_assets.kafka.connection import Connection
from eos_assets.run.broker_watch import BrokerWatch
from eos_assets.run.job import JobRunner
from eos_assets.run.plan import PartitionPlan, Planner
from eos_assets.run.report import RunReport
from eos_assets.run.run import Run
from eos_assets.sink.job import Job, Outcome

END = 10
PIPELINE = pipeline(source=Topic("source"), sink=Topic("sink"), name="planned")(lambda records: records)
#: Spark is not used, and the brokers are not asked.
CONTEXT: Any = PipelineContext(PIPELINE, None, Connection("kafka:9092"))  # type: ignore[arg-type]
Work = Callable[[Sequence[PartitionPlan]], list[Outcome]]


@pytest.fixture(autouse=True)
def no_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eos_assets.run.run.stable_ends", lambda *_: {})


class Positions(Planner):
    """Plans of two partitions, whose positions move by what a job returns."""

    def __init__(self) -> None:
        self.positions = {0: 0, 1: 0}

    def plan(self) -> list[PartitionPlan]:
        return [PartitionPlan(p, position, 0, END, END, None, None, END) for p, position in self.positions.items()]


class Script(JobRunner):
    """Jobs with scripted outcomes, one after the other; the last one repeats."""

    def __init__(self, planner: Positions, jobs: list[Work], size: int = END) -> None:
        template: Any = None
        super().__init__(CONTEXT, template)
        self.planner, self.jobs, self.size = planner, jobs, size

    def run(self, plans: Sequence[PartitionPlan], attempt: int) -> list[Outcome]:
        outcomes = self.jobs[min(attempt, len(self.jobs)) - 1](plans)
        for outcome in outcomes:
            self.planner.positions[outcome.partition] = outcome.next
        return outcomes

    def job_end(self, plan: PartitionPlan, goal: int) -> int:
        return min(goal, plan.position + self.size)

    def transform(self, plans: Sequence[PartitionPlan]) -> DataFrame:
        raise NotImplementedError

    def _write(self, plans: Sequence[PartitionPlan], job: Job) -> list[Outcome]:
        raise NotImplementedError


def outcome(plan: PartitionPlan, code: Code, end: int) -> Outcome:
    return Outcome(plan.partition, MEANINGS[code].outcome, plan.position, end, code=code, reason=f"it is {code}")


def commit(plans: Sequence[PartitionPlan]) -> list[Outcome]:
    return [outcome(plan, Code.COMMITTED, plan.end) for plan in plans]


def abort(plans: Sequence[PartitionPlan]) -> list[Outcome]:
    return [outcome(plan, Code.TRANSACTION_ABORTED, plan.position) for plan in plans]


def lose_worker(_: Sequence[PartitionPlan]) -> list[Outcome]:
    raise RuntimeError("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)")


def refuse_first(plans: Sequence[PartitionPlan]) -> list[Outcome]:
    return [outcome(plans[0], Code.OFFSETS_MOVED, plans[0].position), *commit(plans[1:])]


def fenced_first(plans: Sequence[PartitionPlan]) -> list[Outcome]:
    """A newer run has brought partition 0 to its end."""
    return [outcome(plans[0], Code.FENCED, END), *abort(plans[1:])]


@pytest.mark.parametrize(
    ("jobs", "size", "complete", "attempts", "failures"),
    [
        ([commit], END, True, 1, 0),
        ([abort, lose_worker, commit], END, True, 3, 3),
        ([abort], END, False, 4, 8),
        ([refuse_first], END, False, 1, 0),
        ([fenced_first, commit], END, True, 2, 1),
        ([commit], 1, True, 10, 0),
        ([commit, commit, commit, abort, abort, abort, commit], 2, True, 8, 6),
    ],
    ids=["commit", "retries", "gives up", "refuses", "fenced", "more jobs than attempts", "progress between failures"],
)
def test_a_run_retries_until_its_goals_are_reached_or_nothing_moves(
    jobs: list[Work], size: int, complete: bool, attempts: int, failures: int
) -> None:
    planner, report = Positions(), RunReport("run", PIPELINE.name, Mode.EXACTLY_ONCE)
    run = Run(CONTEXT, planner, Script(planner, jobs, size), report, 4, BrokerWatch(CONTEXT))
    plans = planner.plan()
    assert run._reach_goals(plans, {plan.partition: plan.end for plan in plans}) is complete
    assert (report.attempts, len(report.failures)) == (attempts, failures)
    assert complete == (planner.positions == {0: END, 1: END})


def test_a_refusal_is_logged_as_an_error_and_a_failed_attempt_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Errors are in the result of `eos run` too, which leaves them out of the messages that it prints meanwhile."""
    planner, report = Positions(), RunReport("run", PIPELINE.name, Mode.EXACTLY_ONCE)
    run = Run(CONTEXT, planner, Script(planner, [abort, refuse_first]), report, 4, BrokerWatch(CONTEXT))
    plans = planner.plan()
    assert not run._reach_goals(plans, {plan.partition: plan.end for plan in plans})
    aborted, refused = "it is transaction_aborted", "it is offsets_moved"
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, f"attempt 1: {aborted}"),
        (logging.WARNING, f"attempt 1: {aborted}"),
        (logging.ERROR, f"partition 0: {refused}"),
    ]
    assert report.summary()[0].reason == refused
