"""The ledger: one entry per committed transaction, written inside it, and the one truth about what was done."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from confluent_kafka import Message

from eos_assets.log.corrupt_entry import foreign

VERSION = 1


@dataclass(frozen=True)
class Genesis:
    """The first entry of a ledger partition: where the pipeline began, and the ids of the topics it speaks of."""

    pipeline: str
    partition: int
    start: int
    topic_ids: dict[str, str]
    generation: int = 1
    #: How many partitions the source had, where that may not change: a key must stay with its state.
    partitions: int | None = None
    #: The columns of the state and their types, which may not change either: the changelog would be misread.
    state: dict[str, str] | None = None

    def to_json(self) -> bytes:
        return dump({"v": VERSION, "kind": "genesis", **asdict(self)})


@dataclass(frozen=True)
class SinkPart:
    """What one transaction wrote to one partition of one topic. The digest is a sum modulo 2^64."""

    topic: str
    partition: int
    count: int
    first: int
    last: int
    digest: int


@dataclass(frozen=True)
class LedgerEntry:
    """One committed transaction: the source range it covers and all it wrote."""

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
    sinks: tuple[SinkPart, ...]
    run: str
    run_attempt: int
    task_attempt: int
    code_version: str
    began_ms: int
    ended_ms: int
    mode: str = "exactly_once"
    bytes_out: int = 0
    files: dict[str, str] = field(default_factory=dict)
    #: Of the skipped: records whose business key was seen before.
    repeats: int = 0
    #: 1 where the one record of this transaction was set aside, because the function raised on it.
    isolated: int = 0
    #: What was written to each changelog. `last` is also there where nothing was: the state of this entry is all that
    #: the changelog holds up to it.
    state: tuple[SinkPart, ...] = ()

    def to_json(self) -> bytes:
        return dump({"v": VERSION, "kind": "entry", **asdict(self)})


def dump(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def read(message: Message) -> Genesis | LedgerEntry:
    """The entry that a message of a ledger holds. Anything else is told with its place, and never passed over."""
    try:
        return load(message.value() or b"")
    except Exception as failure:
        place = (message.topic() or "", message.partition() or 0, message.offset() or 0)
        # Only this error: Spark tells the first one of a chain.
        raise foreign(*place, "ledger entry", failure) from None


def load(value: bytes) -> Genesis | LedgerEntry:
    """The inverse of `to_json`. A version we do not know is refused: guessing would be a second truth."""
    content = json.loads(value)
    version, kind = content.pop("v"), content.pop("kind")
    if version != VERSION:
        raise ValueError(f"ledger version {version} is not known here; this is version {VERSION}")
    if kind == "genesis":
        return Genesis(**content)
    if kind != "entry":
        raise ValueError(f"{kind!r} is no kind of ledger entry")
    sinks = tuple(SinkPart(**part) for part in content.pop("sinks"))
    state = tuple(SinkPart(**part) for part in content.pop("state", ()))
    return LedgerEntry(**content, sinks=sinks, state=state)
