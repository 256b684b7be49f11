"""Where an attempt starts: the ledger, the group offset and the plan in, one decision out. A pure function."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GoOn:
    """Write from `position` on; drop every record below it."""

    position: int


@dataclass(frozen=True)
class AlreadyDone:
    """The whole range is committed: succeed and write nothing."""

    position: int


@dataclass(frozen=True)
class StalePlan:
    """The plan starts behind what is committed: writing it would leave a gap."""

    position: int
    reason: str


@dataclass(frozen=True)
class OffsetsMoved:
    """Ledger and group offset differ: somebody moved the offsets, and nobody guesses which one is right."""

    position: int
    reason: str


Decision = GoOn | AlreadyDone | StalePlan | OffsetsMoved


def decide(
    *, ledger: int | None, group: int | None, genesis: int, start: int, end: int, exact: bool = False
) -> Decision:
    """The ledger decides.

    Args:
        ledger: the end of the last committed ledger entry; None before the first.
        group: the stable group offset; None if there is none, which is normal after seven idle days.
        genesis: where the pipeline starts while the ledger is empty.
        start: first offset of the plan.
        end: the plan's end, exclusive.
        exact: the plan holds only at its very start, because state was loaded for it.
    """
    position = genesis if ledger is None else ledger
    if group is not None and ledger is None and group != genesis:
        return OffsetsMoved(
            position,
            f"the ledger is empty, and the group offset says {group}: the ledger was lost, or the group is not ours. "
            "Restore the ledger, or delete the group with Kafka's tools to begin anew; nothing was written.",
        )
    if group is not None and group != position:
        return OffsetsMoved(
            position,
            f"the ledger says {position}, the group offset says {group}: somebody moved the offsets of the group. "
            f"Set the group offset back to {position} with Kafka's tools while nothing runs; nothing was written.",
        )
    if position >= end:
        return AlreadyDone(position)
    if position < start:
        return StalePlan(position, f"the plan starts at {start}, but only {position} is committed: plan again")
    if exact and position != start:
        return StalePlan(position, f"the state was loaded at {start}, but {position} is committed: plan again")
    return GoOn(position)
