"""Step 4 of the protocol: what is committed, compared with the plan."""

import time

from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.log.marks import marks_of
from eos_assets.sink.attempt import Attempt
from eos_assets.sink.resume import Decision, GoOn, OffsetsMoved, StalePlan, decide

Tail = Genesis | LedgerEntry | None


def compare(attempt: Attempt, tail: Tail, group: int | None) -> Decision:
    """Decide where this attempt starts, from the last entry of the ledger and the stable group offset."""
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
        loaded, committed = job.marks[planned.partition], marks_of(tail, job.changelogs)
        if loaded != committed:
            return StalePlan(
                decision.position, f"the state was loaded at {loaded}, but {committed} is committed: plan again"
            )
    return decision


def compare_again(attempt: Attempt, decision: Decision) -> tuple[Tail, Decision]:
    """Ledger and group offset also differ if a newer attempt committed between the two reads. They really differ only
    if they still do after a moment at which no transaction was open in the ledger."""
    deadline = time.monotonic() + attempt.patience
    while True:
        settled = attempt.reader.ledger_is_settled(attempt.partition)
        tail = attempt.reader.ledger_tail(attempt.partition)
        before, decision = decision, compare(attempt, tail, attempt.reader.group_offset(attempt.partition))
        stays = settled and decision == before
        if not isinstance(decision, OffsetsMoved) or stays or time.monotonic() > deadline:
            return tail, decision
