"""Read the dead letters of a pipeline, each with the last mark that its ledger holds about it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from confluent_kafka import Message

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.headers import Header, UnreadableHeadersError, headers_of, last_header
from eos_assets.kafka.offsets import bounds, offsets_for_times, stable_ends
from eos_assets.kafka.reader import read_partitions
from eos_assets.log.dead_letter import ERROR, ORIGIN, PIPELINE, TIMESTAMP, reason_code
from eos_assets.log.letter_marks import LastMark, Status, last_marks, letter_entries
from eos_assets.run.preflight.topics import existing_topics

#: A mark is written after its letter. The clocks of two hosts may differ by this time at most.
CLOCK_SKEW_MS = 3_600_000

#: Source partition and offset: what identifies a letter.
Origin = tuple[int, int]


@dataclass(frozen=True)
class Letter:
    """A source record that the pipeline rejected, without its content."""

    origin: Origin
    #: The offset of the dead letter in its partition, which has the number of the source partition.
    offset: int
    reason: str
    key: bytes | None
    written_ms: int
    #: The last mark, if there is one.
    mark: LastMark | None = None

    @property
    def status(self) -> Status:
        return self.mark.status if self.mark else Status.OPEN

    @property
    def current_reason(self) -> str:
        """Why it was rejected the last time: a letter that fails again has a new reason."""
        return self.mark.reason if self.mark and self.mark.status is Status.OPEN else self.reason

    @property
    def code(self) -> str:
        return reason_code(self.current_reason)


@dataclass(frozen=True)
class LetterFilter:
    """Which letters are meant. What is empty or None limits nothing."""

    codes: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    origins: frozenset[Origin] = frozenset()
    keys: frozenset[bytes] = frozenset()
    #: Written at or after, and before, these times in milliseconds.
    since_ms: int | None = None
    until_ms: int | None = None
    #: Also those that were replayed or discarded.
    statuses: frozenset[Status] = frozenset({Status.OPEN})

    @property
    def limits(self) -> bool:
        """Whether it leaves out any open letter."""
        times = (self.since_ms, self.until_ms)
        return bool(self.codes or self.partitions or self.origins or self.keys) or times != (None, None)

    def matches(self, letter: Letter) -> bool:
        return (
            letter.status in self.statuses
            and (not self.codes or letter.code in self.codes)
            and (not self.partitions or letter.origin[0] in self.partitions)
            and (not self.origins or letter.origin in self.origins)
            and (not self.keys or letter.key in self.keys)
            and (self.since_ms is None or letter.written_ms >= self.since_ms)
            and (self.until_ms is None or letter.written_ms < self.until_ms)
        )

    @property
    def chosen_partitions(self) -> set[int]:
        """The partitions that may hold such letters; empty for all."""
        named = {partition for partition, _ in self.origins}
        return set(self.partitions) & named if self.partitions and named else set(self.partitions) | named


def parse_letter(name: str) -> Origin:
    """The letter that a user names as partition/offset of its source record."""
    partition, separator, offset = name.partition("/")
    if not (separator and partition.isdecimal() and offset.isdecimal()):
        raise EosError(
            f"The letter {name!r} is not valid.", "Use the partition and the offset of its source record, as in 0/17."
        )
    return int(partition), int(offset)


@dataclass
class ReasonCount:
    """The letters of one reason code."""

    code: str
    letters: int = 0
    first_ms: int = 1 << 62
    last_ms: int = 0
    partitions: set[int] = field(default_factory=set)
    #: The reason of the newest one.
    example: str = ""


def read_letters(pipeline: Pipeline, connection: Connection, chosen: LetterFilter | None = None) -> list[Letter]:
    """The letters that match, oldest first. One letter per source record, however many rows of it were rejected."""
    chosen, topic = chosen or LetterFilter(), pipeline.names().dead_letters
    partitions = existing_partitions(pipeline, connection, chosen.chosen_partitions)
    starts = start_offsets(connection, topic, partitions, chosen.since_ms)
    letters = first_of_origins(pipeline, read_partitions(connection, starts, ends_of(connection, topic, partitions)))
    marks = read_marks(pipeline, connection, oldest(letters.values()))
    marked = [with_mark(letter, marks) for letter in letters.values()]
    return sorted(filter(chosen.matches, marked), key=lambda letter: (letter.written_ms, letter.origin))


def choose_letters(pipeline: Pipeline, connection: Connection, chosen: LetterFilter) -> list[Letter]:
    """The open letters that match, for a command that marks them. None at all is an error."""
    letters = read_letters(pipeline, connection, chosen)
    if letters:
        return letters
    every = read_letters(pipeline, connection, LetterFilter(statuses=frozenset(Status)))
    for letter in every:
        if letter.origin in chosen.origins and letter.mark is not None:
            raise EosError(f"The {describe(pipeline, letter)} by {letter.mark.by}.", "Nothing is left to do about it.")
    codes = sorted({letter.code for letter in every if letter.status is Status.OPEN})
    if not codes:
        raise EosError(f"{pipeline.name} has no open dead letters.", "Nothing is left to do.")
    raise EosError(
        f"No open dead letter of {pipeline.name} matches.",
        f"`eos dead-letters list {pipeline.name}` shows them. Their codes are: {', '.join(map(repr, codes[:10]))}.",
    )


def describe(pipeline: Pipeline, letter: Letter) -> str:
    """A letter and its status in words."""
    return f"dead letter of {pipeline.source.name}/{letter.origin[0]} offset {letter.origin[1]} is {letter.status}"


def existing_partitions(pipeline: Pipeline, connection: Connection, chosen: set[int]) -> list[int]:
    """The chosen partitions, or all. Refuses one that the dead letters do not have."""
    names = pipeline.names()
    known = sorted(
        existing_topics(pipeline, connection, [names.dead_letters, names.ledger])[names.dead_letters].partitions
    )
    if unknown := sorted(chosen - set(known)):
        raise EosError(
            f"{names.dead_letters} has no partition {unknown[0]}.", f"Choose among its partitions, 0 to {known[-1]}."
        )
    return sorted(chosen) or known


def start_offsets(
    connection: Connection, topic: str, partitions: list[int], since_ms: int | None
) -> dict[tuple[str, int], int]:
    if since_ms is None:
        return {(topic, p): bound.start for p, bound in bounds(connection, topic, partitions).items()}
    offsets = offsets_for_times(connection, topic, dict.fromkeys(partitions, since_ms))
    return {(topic, p): offset for p, offset in offsets.items()}


def ends_of(connection: Connection, topic: str, partitions: list[int]) -> dict[tuple[str, int], int]:
    return {(topic, p): end for p, end in stable_ends(connection, topic, partitions).items()}


def first_of_origins(pipeline: Pipeline, messages: Iterable[Message]) -> dict[Origin, Letter]:
    """The first letter of each source record. Other pipelines may write to a shared topic."""
    letters: dict[Origin, Letter] = {}
    for message in messages:
        letter = letter_of(pipeline, message)
        if letter is not None:
            letters.setdefault(letter.origin, letter)
    return letters


def letter_of(pipeline: Pipeline, message: Message) -> Letter | None:
    """The letter that a message holds; None if this pipeline did not write it."""
    try:
        headers = headers_of(message)
    except UnreadableHeadersError:  # of another writer: ours leaves such headers out
        return None
    origin = origin_of(headers, pipeline.source.name)
    if last_header(headers, PIPELINE) != pipeline.name.encode() or origin is None:
        return None
    reason = (last_header(headers, ERROR) or b"").decode(errors="replace")
    return Letter(origin, message.offset() or 0, reason, message.key(), message.timestamp()[1])


def origin_of(headers: list[Header], source: str) -> Origin | None:
    """The source partition and offset of a letter; None if it is of another source."""
    topic, _, rest = (last_header(headers, ORIGIN) or b"").decode(errors="replace").partition("/")
    partition, _, offset = rest.partition("/")
    if topic != source or not (partition.isdigit() and offset.isdigit()):
        return None
    return int(partition), int(offset)


def original_headers(headers: list[Header]) -> list[Header]:
    """The headers of the source record: those before ours, which come last and begin with the reason."""
    names = [name for name, _ in headers]
    return headers[: len(names) - 1 - names[::-1].index(ERROR)] if ERROR in names else headers


def original_timestamp(headers: list[Header]) -> int | None:
    """The timestamp of the source record; None in a letter that an earlier version wrote."""
    value = last_header(headers[len(original_headers(headers)) :], TIMESTAMP)
    return int(value) if value else None


def read_marks(pipeline: Pipeline, connection: Connection, since_ms: Mapping[int, int]) -> dict[Origin, LastMark]:
    """The last mark of each letter.

    Args:
        pipeline: whose letters they are.
        connection: the cluster.
        since_ms: source partition → the time of the oldest letter in question. What is older in the ledger is not read.
    """
    if not since_ms:
        return {}
    topic = pipeline.names().ledger
    times = {partition: ms - CLOCK_SKEW_MS for partition, ms in since_ms.items()}
    starts = {(topic, p): offset for p, offset in offsets_for_times(connection, topic, times).items()}
    return last_marks(letter_entries(read_partitions(connection, starts)))


def oldest(letters: Iterable[Letter]) -> dict[int, int]:
    """Source partition → the time of its oldest letter, in milliseconds."""
    times: dict[int, int] = {}
    for letter in letters:
        partition = letter.origin[0]
        times[partition] = min(times.get(partition, letter.written_ms), letter.written_ms)
    return times


def with_mark(letter: Letter, marks: Mapping[Origin, LastMark]) -> Letter:
    mark = marks.get(letter.origin)
    return letter if mark is None else replace(letter, mark=mark)


def count_by_reason(letters: Iterable[Letter]) -> list[ReasonCount]:
    """The letters of each reason code, the most frequent first."""
    groups: dict[str, ReasonCount] = {}
    for letter in letters:
        group = groups.setdefault(letter.code, ReasonCount(letter.code))
        group.letters += 1
        group.first_ms = min(group.first_ms, letter.written_ms)
        group.partitions.add(letter.origin[0])
        if letter.written_ms >= group.last_ms:
            group.last_ms, group.example = letter.written_ms, letter.current_reason
    return sorted(groups.values(), key=lambda group: (-group.letters, group.code))


def by_partition(letters: Iterable[Letter]) -> Iterator[tuple[int, list[Letter]]]:
    """The letters of each source partition, in the order of their origins."""
    groups: dict[int, list[Letter]] = defaultdict(list)
    for letter in letters:
        groups[letter.origin[0]].append(letter)
    for partition, chosen in sorted(groups.items()):
        yield partition, sorted(chosen, key=lambda letter: letter.origin)
