"""Step 4 of the protocol: where an attempt resumes, decided from the ledger, the group offset and the plan."""

from dataclasses import dataclass

from eos_assets.deadlines import Deadline
from eos_assets.log.ledger import Genesis, LedgerEntry, changelog_offsets
from eos_assets.sink.job import Attempt

#: The last entry of a ledger partition, None if it is empty.
Tail = Genesis | LedgerEntry | None


@dataclass(frozen=True)
class GoOn:
    """Write from `position` on, and drop every record below it."""

    position: int


@dataclass(frozen=True)
class AlreadyDone:
    """The whole range is committed: succeed and write nothing."""

    position: int


@dataclass(frozen=True)
class StalePlan:
    """The plan starts after the committed position: writing it would leave a gap."""

    position: int
    reason: str


@dataclass(frozen=True)
class OffsetsMoved:
    """Ledger and group offset differ, because another client changed the group's offsets: refuse."""

    position: int
    reason: str


Decision = GoOn | AlreadyDone | StalePlan | OffsetsMoved


def decide(
    *, ledger: int | None, group: int | None, genesis: int, start: int, end: int, exact: bool = False
) -> Decision:
    """Decide where an attempt resumes. The ledger decides; the group offset must agree with it.

    Args:
        ledger: the end of the last committed ledger entry; None before the first.
        group: the stable group offset; None if there is none, which is normal after seven idle days.
        genesis: where the pipeline starts while the ledger is empty.
        start: the first offset of the plan.
        end: the end of the plan, exclusive.
        exact: the attempt must start where the plan does, because state was loaded for that position.
    """
    position = genesis if ledger is None else ledger
    if group is not None and ledger is None and group != genesis:
        return OffsetsMoved(
            position,
            f"the ledger is empty, and the group offset is {group}: the ledger was lost, or another client uses the "
            "group. Restore the ledger, or delete the group with Kafka's tools to start again; nothing was written.",
        )
    if group is not None and group != position:
        return OffsetsMoved(
            position,
            f"the ledger ends at {position}, and the group offset is {group}: another client changed the offsets of "
            f"the group. Set the group offset back to {position} with Kafka's tools while nothing runs; nothing was "
            "written.",
        )
    if position >= end:
        return AlreadyDone(position)
    if position < start:
        return StalePlan(position, f"the plan starts at {start}, but only {position} is committed: plan again")
    if exact and position != start:
        return StalePlan(position, f"the state was loaded at {start}, but {position} is committed: plan again")
    return GoOn(position)


def compare(attempt: Attempt, tail: Tail, group: int | None) -> Decision:
    """Decide where this attempt resumes, from the last entry of the ledger and the stable group offset."""
    job, planned = attempt.job, attempt.planned
    decision = decide(
        ledger=None if tail is None else tail.next if isinstance(tail, LedgerEntry) else tail.start,
        group=group,
        genesis=job.geneses.get(planned.partition, planned.start),
        start=planned.start,
        end=planned.end,
        exact=job.stateful,
    )
    if job.stateful and isinstance(decision, GoOn):
        loaded, committed = job.changelog_offsets[planned.partition], changelog_offsets(tail, job.changelogs)
        if loaded != committed:
            return StalePlan(
                decision.position, f"the state was loaded at {loaded}, but {committed} is committed: plan again"
            )
    return decision


def compare_again(attempt: Attempt, decision: Decision) -> tuple[Tail, Decision]:
    """Read both positions again. They also differ if a newer attempt commits between the two reads. The offsets were
    really moved only if they still differ after a moment without an open transaction in the ledger."""
    deadline = Deadline(attempt.timeout)
    while True:
        settled = attempt.reader.ledger_is_settled(attempt.partition)
        tail = attempt.reader.ledger_tail(attempt.partition)
        before, decision = decision, compare(attempt, tail, attempt.reader.group_offset(attempt.partition))
        confirmed = settled and decision == before
        if not isinstance(decision, OffsetsMoved) or confirmed or deadline.passed:
            return tail, decision
