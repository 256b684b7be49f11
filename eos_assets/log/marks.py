"""Up to where each changelog belongs to a ledger entry: the entry in, the last offsets of its state out."""

from collections.abc import Iterable

from eos_assets.log.ledger import Genesis, LedgerEntry

#: Changelog topic → the last offset that belongs to the state, -1 where nothing was written yet.
Marks = dict[str, int]


def marks_of(tail: Genesis | LedgerEntry | None, changelogs: Iterable[str]) -> Marks:
    """All visible records up to a mark, and none behind it, make the state at this entry: only the transactions of one
    source partition write to one partition of a changelog, one after the other."""
    known = {part.topic: part.last for part in tail.state} if isinstance(tail, LedgerEntry) else {}
    return {topic: known.get(topic, -1) for topic in changelogs}
