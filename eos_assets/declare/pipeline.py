"""What a user writes: a function from DataFrame to DataFrame, and a declaration of its topics."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from eos_assets.declare.check import Fact
from eos_assets.declare.code_version import code_version as version_of
from eos_assets.declare.code_version import name_of
from eos_assets.declare.modes import Mode
from eos_assets.declare.names import Names
from eos_assets.declare.topic import FOREVER, Topic
from eos_assets.errors import EosError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Transform = Callable[["DataFrame"], "DataFrame"]
#: Records and state in; outputs and changed state out. See `stateful`.
Fold = Callable[["DataFrame", "DataFrame"], tuple["DataFrame", "DataFrame"]]
SHORTEST_TIMEOUT_MS = 1000
#: A tombstone is there at least so long, so a snapshot of the state may be that old.
TOMBSTONES_MS = 7 * 24 * 3600 * 1000


@dataclass(frozen=True)
class Pipeline:
    """One declared pipeline. `transform` is the user's function, callable in a unit test."""

    name: str
    source: Topic
    sinks: tuple[Topic, ...]
    transform: Transform
    code_version: str
    drops: bool = False
    deterministic: bool = True
    ordered: bool = False
    shared_sink: bool = False
    on_error: Literal["stop", "isolate"] = "stop"
    max_isolated: int = 10
    transaction_records: int = 1_000_000
    transaction_bytes: int = 256 << 20
    transaction_timeout_ms: int = 60_000
    durability: Literal["dev", "production"] = "dev"
    unique_by: str | None = None
    generation: int = 1
    facts: tuple[Fact, ...] = ()
    #: A stateful pipeline: the user's function, and the columns of its state.
    fold: Fold | None = None
    state: str = ""
    unique_within: int | None = None

    @property
    def stateful(self) -> bool:
        return self.fold is not None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,99}", self.name):
            raise EosError(
                f"{self.name!r} is no name for a pipeline.",
                "Use small letters, digits and '_', as in a function's name.",
            )
        if not self.sinks:
            raise EosError(f"Pipeline {self.name} declares no sink.", "Give it a topic to write to.")
        own = self.names()
        names = [self.source.name, *(sink.name for sink in self.sinks), own.dead_letters]
        names += [own.ledger, own.provenance, own.changelog, own.seen]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise EosError(
                f"Pipeline {self.name} reads and writes one topic, or writes it for two purposes: {', '.join(twice)}.",
                "Give it a source and sinks of their own, beside its dead letters and the topics named eos.….",
            )
        for sink in self.sinks:
            if sink.compacted:
                raise EosError(
                    f"Pipeline {self.name} writes to {sink.name}, which is declared compacted.",
                    "Declare it without compaction: a record that compaction removed cannot be told from a lost one.",
                )
        if self.drops and not self.deterministic:
            raise EosError(
                f"Pipeline {self.name} declares drops=True and deterministic=False.",
                "Return rows with skip = true instead of filtering: what a filter drops is proven by running it again.",
            )
        if self.generation < 1:
            raise EosError(f"Pipeline {self.name} declares generation={self.generation}.", "The first one is 1.")
        for option, value, allowed in (
            ("on_error", self.on_error, ("stop", "isolate")),
            ("durability", self.durability, ("dev", "production")),
        ):
            if value not in allowed:
                raise EosError(f"Pipeline {self.name} declares {option}={value!r}.", f"Say {' or '.join(allowed)}.")
        if self.transaction_timeout_ms < SHORTEST_TIMEOUT_MS:
            raise EosError(
                f"Pipeline {self.name} declares transaction_timeout_ms={self.transaction_timeout_ms}.",
                f"Kafka's client takes {SHORTEST_TIMEOUT_MS} and more.",
            )
        if self.transaction_records < 1 or self.transaction_bytes < 1:
            raise EosError(
                f"Pipeline {self.name} declares an empty slice.",
                "Let transaction_records and transaction_bytes be at least 1.",
            )

    def names(self, mode: Mode = Mode.EXACTLY_ONCE) -> Names:
        return Names(self.name, self.source.name, self.sinks[0].name, mode, self.generation)

    def own_topics(self, mode: Mode = Mode.EXACTLY_ONCE) -> list[Topic]:
        """Sinks, dead letters, ledger and provenance, as they are to be created."""
        names, partitions = self.names(mode), self.source.partitions
        sinks = [
            Topic(
                names.sink(sink.name),
                sink.partitions,
                sink.replication,
                sink.min_insync_replicas,
                sink.retention_ms,
                sink.compacted,
                sink.max_message_bytes,
            )
            for sink in self.sinks
        ]
        replication = self.sinks[0].replication
        return [
            *sinks,
            Topic(
                names.dead_letters,
                partitions,
                replication,
                retention_ms=self.sinks[0].retention_ms,
                max_message_bytes=self.source.max_message_bytes,
            ),
            Topic(names.ledger, partitions, replication, retention_ms=FOREVER),
            Topic(names.provenance, partitions, replication, retention_ms=self.sinks[0].retention_ms),
            *(
                Topic(
                    topic,
                    partitions,
                    replication,
                    compacted=True,
                    max_message_bytes=self.sinks[0].max_message_bytes,
                    delete_retention_ms=TOMBSTONES_MS,
                )
                for topic in self.changelogs(mode)
            ),
        ]

    def changelogs(self, mode: Mode = Mode.EXACTLY_ONCE) -> tuple[str, ...]:
        """The topics of a stateful pipeline's state: key → state, and the business keys it has seen."""
        names = self.names(mode)
        if not self.stateful:
            return ()
        return (names.changelog,) if self.unique_within is None else (names.changelog, names.seen)


def pipeline(
    *,
    source: Topic,
    sink: Topic | Sequence[Topic],
    name: str | None = None,
    drops: bool = False,
    deterministic: bool = True,
    ordered: bool = False,
    shared_sink: bool = False,
    on_error: Literal["stop", "isolate"] = "stop",
    max_isolated: int = 10,
    transaction_records: int = 1_000_000,
    transaction_bytes: int = 256 << 20,
    transaction_timeout_ms: int = 60_000,
    durability: Literal["dev", "production"] = "dev",
    unique_by: str | None = None,
    generation: int = 1,
    facts: tuple[Fact, ...] = (),
    code_version: str | None = None,
) -> Callable[[Transform], Pipeline]:
    """Declares a pipeline around a transform.

    Args:
        source: the topic it reads.
        sink: the topic it writes; several may be given, and a row then says in `topic` where it goes.
        name: default: the function's name.
        drops: the transform leaves records out with a plain filter instead of saying `skip`; it must be deterministic.
        deterministic: False if it looks things up elsewhere, so that running it again may give something else.
        ordered: functions over whole batches (`mapInPandas`, `mapInArrow`) give all rows of a record together, in the
            order of the records. Without that promise their rows are sorted before the first of them is written.
        shared_sink: others write to the sink too.
        on_error: whether a record that makes the transform raise stops its partition, or becomes a dead letter.
        max_isolated: how many such records one run may set aside.
        transaction_records: about how many records go into one transaction.
        transaction_bytes: about how many bytes go into one transaction.
        transaction_timeout_ms: after this long without a commit the broker aborts.
        durability: "production" insists on replicated topics; "dev" is fine with one broker.
        unique_by: the business key of a source record, a SQL expression over `key`, `value` and `headers`. If it is
            declared, `source_is_unique` is evaluated.
        generation: a higher number begins anew, with a ledger of its own, at the first record that the source still
            has. It needs a new sink, or `shared_sink`: what an earlier generation wrote is not its own.
        facts: what else it is to be checked for, beside the invariants.
        code_version: default: a digest of the function and of what it uses of its own package. Give one where that
            follows too little, or too much: what another version wrote is not compared with the code of today.
    """

    sinks = (sink,) if isinstance(sink, Topic) else tuple(sink)

    def declare(transform: Transform) -> Pipeline:
        return Pipeline(
            name=name or name_of(transform),
            source=source,
            sinks=sinks,
            transform=transform,
            code_version=code_version or version_of(transform, sinks),
            drops=drops,
            deterministic=deterministic,
            ordered=ordered,
            shared_sink=shared_sink,
            on_error=on_error,
            max_isolated=max_isolated,
            transaction_records=transaction_records,
            transaction_bytes=transaction_bytes,
            transaction_timeout_ms=transaction_timeout_ms,
            durability=durability,
            unique_by=unique_by,
            generation=generation,
            facts=facts,
        )

    return declare
