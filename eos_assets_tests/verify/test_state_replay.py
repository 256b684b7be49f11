"""Where a stateful pipeline is folded again from."""

from collections.abc import Iterable
from typing import cast

import pytest

from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.state.snapshot import Part, Snapshot
from eos_assets.verify.state_replay import ReplayStart, StateHistory, StateReplay, replay_start
from eos_assets.verify.window.window import PartitionWindow, Window

TAIL = LedgerEntry("p", "source", 0, 10, 20, 0, 0, 0, 0, 0, (), "run", 1, 0, "1", 0, 0)
GENESIS = Genesis("p", 0, 5, {})


class Parts:
    """A snapshot with these positions of source partition 0."""

    def __init__(self, positions: Iterable[int]) -> None:
        self.positions = positions

    def usable_parts(self) -> list[Part]:
        return [Part(0, 0, position, 0, "", 0) for position in self.positions]


#: The history, the log start of the source, the positions of a snapshot, and where the fold begins or why it does not.
SCENARIOS: dict[str, tuple[StateHistory, int, list[int], ReplayStart | str]] = {
    "nothing is written yet": (StateHistory(GENESIS), 0, [], ""),
    "the whole source is retained": (StateHistory(GENESIS, TAIL), 5, [12], ReplayStart(5, False, TAIL)),
    "a snapshot of what retention took": (StateHistory(GENESIS, TAIL), 6, [12], ReplayStart(12, True, TAIL)),
    "a snapshot of what other code wrote": (StateHistory(GENESIS, TAIL, 10), 0, [10], ReplayStart(10, True, TAIL)),
    "a snapshot that is too old": (
        StateHistory(GENESIS, TAIL, 10),
        0,
        [9],
        "its state was made by other code, and there is no snapshot of it",
    ),
    "a snapshot after the window": (
        StateHistory(GENESIS, TAIL),
        6,
        [21],
        "the source begins at 6, the pipeline at 5, and there is no snapshot",
    ),
}


@pytest.mark.parametrize(("history", "log_start", "positions", "expected"), SCENARIOS.values(), ids=SCENARIOS)
def test_the_fold_begins_at_the_genesis_or_at_a_snapshot(
    history: StateHistory, log_start: int, positions: list[int], expected: ReplayStart | str
) -> None:
    window = PartitionWindow(0, [], None, end=20, log_start=log_start)
    assert replay_start(history, window, cast(Snapshot, Parts(positions))) == expected


def test_only_what_is_folded_again_can_be_recomputed() -> None:
    windows = {p: PartitionWindow(p, [], None, end=20, code_start=start) for p, start in ((0, 3), (1, 15), (2, 0))}
    replay = StateReplay({p: ReplayStart(12, True, TAIL) for p in (0, 1)}, {2: "no snapshot"})
    partitions = replay.restrict(Window(windows, {}, {})).partitions
    assert {p: w.code_start for p, w in partitions.items()} == {0: 12, 1: 15, 2: 20}
    assert replay.omissions == "partition 2: no snapshot"
    assert [(r.partition, r.start, r.end) for r in replay.ranges] == [(0, 12, 20), (1, 12, 20)]
