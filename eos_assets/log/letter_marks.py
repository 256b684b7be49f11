"""What became of dead letters: the marks in the ledger, each committed in the transaction that it describes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka import Message

from eos_assets.log import ledger
from eos_assets.log.ledger import DISCARDED, REJECTED, REPLAYED, LetterEntry


class Status(StrEnum):
    """Whether something is left to do about a letter."""

    OPEN = "open"
    REPLAYED = REPLAYED
    DISCARDED = DISCARDED


STATUS_OF = {REJECTED: Status.OPEN, REPLAYED: Status.REPLAYED, DISCARDED: Status.DISCARDED}


@dataclass(frozen=True)
class LastMark:
    """The last thing that happened to a letter."""

    outcome: str
    #: Why it was rejected again, or discarded.
    reason: str
    by: str
    run: str
    at_ms: int

    @property
    def status(self) -> Status:
        return STATUS_OF[self.outcome]


def letter_entries(messages: Iterable[Message]) -> Iterator[LetterEntry]:
    """The entries about letters among the messages of a ledger. No entry of a run is decoded."""
    for message in messages:
        if ledger.number_of(message):
            entry = ledger.read(message)
            if isinstance(entry, LetterEntry):
                yield entry


def last_marks(entries: Iterable[LetterEntry]) -> dict[tuple[int, int], LastMark]:
    """The last mark of each letter, from entries in the order of the ledger."""
    return {
        (entry.partition, mark.offset): LastMark(mark.outcome, mark.reason, entry.by, entry.run, entry.ended_ms)
        for entry in entries
        for mark in entry.marks
    }
