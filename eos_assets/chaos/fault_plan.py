"""The plan of a soak's faults: which, when and how long. A seed always gives the same plan."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Each kind of fault in words.
KINDS = {
    "kill-broker": "a broker is killed, and started again after some seconds",
    "pause-broker": "a broker is stopped for some seconds, at times for longer than a transaction may last",
    "kill-worker": "a Python worker of Spark is killed at a step of its transaction",
    "abort": "a worker fails at a step of its transaction, which is aborted",
    "kill-run": "the process of a run is killed while a worker is at a step of its transaction; the worker continues",
    "fence": "a worker is stopped at a step of its transaction, and continues when another run has taken over",
    "double-run": "a second process runs the same pipeline for some seconds",
}
#: The failpoints of the writer at which a worker may be struck.
STEPS = ("mid_produce", "after_offsets", "before_commit", "after_commit")
#: Those at which another run can take over the transaction.
OPEN_STEPS = STEPS[:-1]
#: Within these, the duration of a fault in seconds is drawn.
DURATIONS = {"kill-broker": (0.5, 3.0), "pause-broker": (1.0, 12.0), "kill-run": (0.5, 5.0), "double-run": (4.0, 10.0)}
#: The time between two faults varies by this share.
JITTER = 0.3


@dataclass(frozen=True)
class PlannedFault:
    """One fault that is to be injected."""

    number: int
    kind: str
    #: Seconds after the start of the soak.
    at: float
    #: Where a worker is struck.
    step: str
    #: The broker that is struck.
    broker: int
    #: How long it lasts; 0 if it is over at once or ends by itself.
    seconds: float


def plan_faults(
    seed: int, kinds: Sequence[str], *, seconds: float, every: float, brokers: int = 1
) -> list[PlannedFault]:
    """Plan a fault about every so many seconds. Each kind occurs once before any occurs again."""
    chance = random.Random(seed)
    order = endless_rounds(chance, kinds)
    planned: list[PlannedFault] = []
    at = every * chance.uniform(1 - JITTER, 1)
    while at < seconds:
        kind = next(order)
        step = chance.choice(OPEN_STEPS if kind == "fence" else STEPS)
        broker = chance.randint(1, brokers)
        duration = round(chance.uniform(*DURATIONS.get(kind, (0, 0))), 1)
        planned.append(PlannedFault(len(planned) + 1, kind, round(at, 1), step, broker, duration))
        at += every * chance.uniform(1 - JITTER, 1 + JITTER)
    return planned


def endless_rounds(chance: random.Random, kinds: Sequence[str]) -> Iterator[str]:
    while True:
        yield from chance.sample(kinds, len(kinds))
