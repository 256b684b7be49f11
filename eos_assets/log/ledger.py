"""The ledger: one entry per committed transaction, written in that transaction. It decides where a run resumes."""

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from confluent_kafka import Message

from eos_assets.log.corrupt_entry import CorruptEntry

VERSION = 1

#: The outcomes of a mark of a dead letter.
REPLAYED, REJECTED, DISCARDED = "replayed", "rejected", "discarded"

#: Changelog topic → the last offset of the state, -1 if nothing was written yet.
ChangelogOffsets = dict[str, int]


@dataclass(frozen=True)
class Genesis:
    """The first entry of a ledger partition: where the pipeline started, and the ids of its topics."""

    pipeline: str
    partition: int
    start: int
    topic_ids: dict[str, str]
    generation: int = 1
    #: The number of partitions of the source if it may not change, because a key must stay with its state.
    partitions: int | None = None
    #: The columns of the state and their types, which may not change either: the changelog holds them.
    state: dict[str, str] | None = None

    def to_json(self) -> bytes:
        return dump({"v": VERSION, "kind": "genesis", **asdict(self)})


@dataclass(frozen=True)
class WrittenRange:
    """What one transaction wrote to one partition of one topic. The digest is a sum modulo 2^64."""

    topic: str
    partition: int
    count: int
    first: int
    last: int
    digest: int


@dataclass(frozen=True)
class LedgerEntry:
    """One committed transaction: the source range that it covers, and everything that it wrote."""

    pipeline: str
    topic: str
    partition: int
    start: int
    next: int
    records_in: int
    records_out: int
    skipped: int
    dead: int
    dropped: int | None
    sinks: tuple[WrittenRange, ...]
    run: str
    run_attempt: int
    task_attempt: int
    code_version: str
    began_ms: int
    ended_ms: int
    mode: str = "exactly_once"
    bytes_out: int = 0
    files: dict[str, str] = field(default_factory=dict)
    #: The skipped records whose business key was seen before.
    repeats: int = 0
    #: 1 if the only record of this transaction was isolated, because the function raised on it.
    isolated: int = 0
    #: What was written to each changelog. `last` is set even if nothing was: the state of this entry is what the
    #: changelog holds up to it.
    state: tuple[WrittenRange, ...] = ()

    def to_json(self) -> bytes:
        return dump({"v": VERSION, "kind": "entry", **asdict(self)})


@dataclass(frozen=True)
class LostOutputs:
    """The outputs of one transaction that were no longer visible in one partition of a topic, as its entry counts
    them."""

    #: The start of the transaction; of an earlier repair, minus its number.
    start: int
    topic: str
    partition: int
    count: int
    digest: int


@dataclass(frozen=True)
class Repair:
    """One committed repair of a source partition: it produces again what a proof shows missing.

    It covers no range of the source and does not move the position. Its maps name the outputs; their `start` is minus
    the number of the repair.
    """

    pipeline: str
    topic: str
    partition: int
    #: One higher than that of the last amendment of this source partition; 1 for the first.
    number: int
    #: The position at that moment.
    position: int
    #: The first and the last source offset of which something was missing.
    first: int
    last: int
    records_in: int
    records_out: int
    skipped: int
    dead: int
    sinks: tuple[WrittenRange, ...]
    #: Those of the outputs that an earlier transaction had written, by that transaction.
    lost: tuple[LostOutputs, ...]
    run: str
    run_attempt: int
    task_attempt: int
    code_version: str
    began_ms: int
    ended_ms: int
    mode: str = "exactly_once"
    bytes_out: int = 0

    @property
    def start(self) -> int:
        """What its maps have in the place of the start of a transaction."""
        return -self.number

    @property
    def kind(self) -> str:
        return "repair"

    @property
    def writes_records(self) -> bool:
        """Whether a proof has to explain outputs by it."""
        return True

    def to_json(self) -> bytes:
        return dump({"v": VERSION, "kind": self.kind, **asdict(self)})


@dataclass(frozen=True)
class LetterMark:
    """What became of one dead letter."""

    #: The source offset of the letter.
    offset: int
    #: `replayed`, `rejected` (it failed again) or `discarded`.
    outcome: str
    #: Why it was rejected or discarded.
    reason: str = ""


@dataclass(frozen=True)
class LetterEntry:
    """One committed transaction that replayed or discarded dead letters of one source partition.

    It covers no range of the source and does not move the position. Its maps name the outputs; their `start` is minus
    the number of the entry.
    """

    pipeline: str
    topic: str
    partition: int
    #: One higher than that of the last amendment of this source partition; 1 for the first.
    number: int
    #: The position at that moment.
    position: int
    marks: tuple[LetterMark, ...]
    #: Who replayed or discarded.
    by: str
    records_out: int
    skipped: int
    sinks: tuple[WrittenRange, ...]
    run: str
    run_attempt: int
    task_attempt: int
    code_version: str
    began_ms: int
    ended_ms: int
    mode: str = "exactly_once"
    bytes_out: int = 0
    files: dict[str, str] = field(default_factory=dict)

    @property
    def start(self) -> int:
        """What its maps have in the place of the start of a transaction."""
        return -self.number

    @property
    def first(self) -> int:
        """The first source offset of its letters."""
        return min(mark.offset for mark in self.marks)

    @property
    def last(self) -> int:
        """The last source offset of its letters."""
        return max(mark.offset for mark in self.marks)

    @property
    def replayed(self) -> frozenset[int]:
        """The source offsets of the letters whose outputs it delivered."""
        return frozenset(mark.offset for mark in self.marks if mark.outcome == REPLAYED)

    @property
    def kind(self) -> str:
        return "letters"

    @property
    def writes_records(self) -> bool:
        """Whether a proof has to explain outputs by it."""
        return bool(self.replayed)

    def to_json(self) -> bytes:
        return dump({"v": VERSION, "kind": self.kind, **asdict(self)})


#: An entry that does not move the position. Both kinds share one sequence of numbers in each source partition.
Amendment = Repair | LetterEntry


def short_run_id(run: str) -> str:
    """The first part of a run id, as Dagster's UI shows it: an id of Dagster is a UUID."""
    return run[:8]


def utc_time(milliseconds: int) -> str:
    """A time of a ledger entry as text, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(milliseconds / 1000))


def dump(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def changelog_offsets(entry: Genesis | LedgerEntry | None, changelogs: Iterable[str]) -> ChangelogOffsets:
    """The last offset of each changelog that belongs to the state of an entry.

    The visible records up to these offsets are that state, because only the transactions of one source partition write
    to one partition of a changelog, one after the other.
    """
    known = {written.topic: written.last for written in entry.state} if isinstance(entry, LedgerEntry) else {}
    return {topic: known.get(topic, -1) for topic in changelogs}


def read(message: Message) -> Genesis | LedgerEntry | Amendment:
    """The entry that a message of a ledger holds. Every other message is an error, never passed over."""
    try:
        return load(message.value() or b"")
    except Exception as failure:
        place = (message.topic() or "", message.partition() or 0, message.offset() or 0)
        # `from None`, because Spark reports the first error of a chain.
        raise CorruptEntry(*place, "ledger entry", failure) from None


def number_of(message: Message) -> int:
    """The number of an amendment; 0 for any other entry. Its key is the `start` of its maps."""
    key = message.key() or b""
    return int(key[1:]) if key.startswith(b"-") and key[1:].isdigit() else 0


def load(value: bytes) -> Genesis | LedgerEntry | Amendment:
    """The inverse of `to_json`. An unknown version is refused, never guessed."""
    content = json.loads(value)
    version, kind = content.pop("v"), content.pop("kind")
    if version != VERSION:
        raise ValueError(f"ledger version {version} is unknown, this is version {VERSION}")
    if kind == "genesis":
        return Genesis(**content)
    if kind not in ("entry", "repair", "letters"):
        raise ValueError(f"the kind {kind!r} is unknown")
    sinks = tuple(WrittenRange(**fields) for fields in content.pop("sinks"))
    if kind == "repair":
        lost = tuple(LostOutputs(**fields) for fields in content.pop("lost"))
        return Repair(**content, sinks=sinks, lost=lost)
    if kind == "letters":
        marks = tuple(LetterMark(**fields) for fields in content.pop("marks"))
        return LetterEntry(**content, sinks=sinks, marks=marks)
    state = tuple(WrittenRange(**fields) for fields in content.pop("state", ()))
    return LedgerEntry(**content, sinks=sinks, state=state)
