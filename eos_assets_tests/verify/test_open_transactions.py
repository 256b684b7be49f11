"""Open transactions: one is stuck if it outlives its timeout."""

import time
from typing import cast

import pytest
from pyspark.sql import SparkSession

from eos_assets.context import PipelineContext
from eos_assets.declare.check import Finding
from eos_assets.declare.options import Batching
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds
from eos_assets.verify import verify
from eos_assets.verify.verify import (
    check_open_transactions,
    held_back,
    no_open_transactions,
)
from eos_assets.verify.window.window import TopicBounds


def bounds_at(stable: int, high: int) -> TopicBounds:
    return {"sink": {0: Bounds(0, 9, 9), 1: Bounds(0, stable, high)}}


@pytest.mark.parametrize(
    ("before", "after", "stuck"),
    [
        (bounds_at(9, 9), bounds_at(9, 9), False),
        (bounds_at(5, 9), bounds_at(5, 9), True),
        (bounds_at(5, 9), bounds_at(5, 12), True),
        (bounds_at(5, 9), bounds_at(9, 9), False),
        (bounds_at(5, 9), bounds_at(7, 9), False),
        (bounds_at(9, 9), bounds_at(9, 12), False),
        ({}, bounds_at(5, 9), False),
    ],
    ids=["none", "open", "open, and more came", "ended", "another one is open", "new", "not seen before"],
)
def test_a_transaction_is_stuck_if_it_is_the_first_open_one_twice(
    before: TopicBounds, after: TopicBounds, stuck: bool
) -> None:
    assert bool(held_back(before, after)) == stuck
    assert no_open_transactions(before, after, seconds=59, timeout=60).holds, "it may still end"
    high = after["sink"][1].high
    expected = [f"sink/1: open at 5 for 60 s, ends at {high}"] if stuck else []
    found = no_open_transactions(before, after, seconds=60, timeout=60)
    assert (found.holds, list(found.examples)) == (not stuck, expected)


def check(monkeypatch: pytest.MonkeyPatch, reads: list[TopicBounds], *, wait: bool) -> Finding:
    """Check an open transaction of a pipeline with the shortest timeout, whose bounds are read one after the other."""
    pipeline = Pipeline("p", Topic("source"), (Topic("sink"),), lambda r: r, "1", batching=Batching(timeout_ms=1000))
    context = PipelineContext(pipeline, cast(SparkSession, None), Connection("nowhere:9092"))
    monkeypatch.setattr(verify, "read_bounds", lambda *_: reads.pop(0) if len(reads) > 1 else reads[0])
    monkeypatch.setattr(verify, "describe_open_transactions", lambda *_: {("sink", 1): "held by producer 7"})
    monkeypatch.setattr(verify, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(verify, "SWEEP_SECONDS", 0.01)
    return check_open_transactions(context, bounds_at(5, 9), time.monotonic() - 0.95, wait=wait)


def test_an_open_transaction_may_end_until_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(monkeypatch, [bounds_at(5, 9), bounds_at(5, 12), bounds_at(12, 12)], wait=True).holds


def test_a_transaction_that_outlives_its_timeout_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = check(monkeypatch, [bounds_at(5, 9)], wait=True)
    assert not stuck.holds
    assert stuck.examples[0].endswith("; held by producer 7")
    assert check(monkeypatch, [bounds_at(5, 9)], wait=False).holds, "without waiting it may still end"
