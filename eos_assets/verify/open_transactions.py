"""Find transactions that hold back the last stable offset for longer than their timeout."""

import time

from eos_assets.context import PipelineContext
from eos_assets.deadlines import poll_until
from eos_assets.declare.check import Finding
from eos_assets.kafka.offsets import Bounds, bounds_of
from eos_assets.verify.invariants import Violations
from eos_assets.verify.window.window import TopicBounds

#: Brokers look for transactions that outlived their timeout every ten seconds.
SWEEP_SECONDS = 10.0
POLL_SECONDS = 0.5


def check_open_transactions(context: PipelineContext, before: TopicBounds, started: float, *, wait: bool) -> Finding:
    """Wait until every transaction that was open in the window has ended or outlived its timeout.

    Args:
        context: whose topics they are.
        before: the bounds of the window.
        started: when the proof started, on the monotonic clock.
        wait: without it, what is open now may still end.
    """
    timeout = context.pipeline.batching.timeout_ms / 1000
    remaining = started + timeout + SWEEP_SECONDS - time.monotonic() if wait else 0.0
    after = before

    def have_ended() -> bool:
        nonlocal after
        after = read_bounds(context, before)
        return not held_back(before, after)

    poll_until(have_ended, max(0.0, remaining), POLL_SECONDS)
    return no_open_transactions(before, after, time.monotonic() - started, timeout)


def read_bounds(context: PipelineContext, before: TopicBounds) -> TopicBounds:
    """The current bounds of the same partitions."""
    current = bounds_of(context.kafka, [(topic, p) for topic, partitions in before.items() for p in partitions])
    return {topic: {p: current[topic, p] for p in partitions} for topic, partitions in before.items()}


def held_back(before: TopicBounds, after: TopicBounds) -> list[tuple[str, int, Bounds]]:
    """The partitions whose first open transaction is the same at both moments."""
    return [
        (topic, partition, now)
        for topic, partitions in sorted(after.items())
        for partition, now in sorted(partitions.items())
        for earlier in [before.get(topic, {}).get(partition)]
        if earlier and earlier.stable == now.stable < earlier.high
    ]


def no_open_transactions(before: TopicBounds, after: TopicBounds, seconds: float, timeout: float) -> Finding:
    """The last stable offset is not held back for longer than the transaction timeout. Two samples decide, not one.

    Args:
        before: the bounds at the first moment.
        after: the bounds at the second moment.
        seconds: the time between the two.
        timeout: the transaction timeout.
    """
    violations = Violations()
    if seconds >= timeout:
        for topic, partition, now in held_back(before, after):
            violations.add(f"{topic}/{partition}: open at {now.stable} for {seconds:.0f} s, ends at {now.high}")
    open_now = sum(now.stable < now.high for partitions in after.values() for now in partitions.values())
    note = f"{open_now} open, not for long" if open_now else "none open"
    return violations.finding("no_open_transactions", note, "transactions hold back the last stable offset")
