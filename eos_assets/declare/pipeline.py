"""The declaration of a pipeline: its topics, its function and its options."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack, get_args

from eos_assets.declare.check import Check
from eos_assets.declare.code_version import CodeVersion, docstring_of, name_of
from eos_assets.declare.modes import Mode
from eos_assets.declare.names import Names
from eos_assets.declare.options import (
    RESERVED,
    Batching,
    Durability,
    OnError,
    Options,
    Unique,
    as_freshness,
    check_asset_options,
    check_options,
    check_parameters,
)
from eos_assets.declare.topic import FOREVER, Topic, as_topic, as_topics
from eos_assets.errors import EosError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: From DataFrame to DataFrame or, of an Arrow pipeline, from batch to batch.
Transform = Callable[[Any], Any]
#: From records and state to outputs and changed state, see `stateful`.
Fold = Callable[["DataFrame", "DataFrame"], tuple["DataFrame", "DataFrame"]]
#: Compacted topics keep a tombstone for at least this long, so a snapshot of the state may be that old.
TOMBSTONES_MS = 7 * 24 * 3600 * 1000


@dataclass(frozen=True)
class Pipeline:
    """One declared pipeline. `transform` is the user's function and can be called in a unit test."""

    name: str
    source: Topic
    sinks: tuple[Topic, ...]
    transform: Transform
    #: The version of the code: declared, or the digest of the function.
    version: CodeVersion | str
    drops: bool = False
    deterministic: bool = True
    ordered: bool = False
    shared_sink: bool = False
    on_error: OnError = "stop"
    max_isolated: int = 10
    batching: Batching = field(default_factory=Batching)
    durability: Durability = "dev"
    unique: Unique | None = None
    generation: int = 1
    fresh_within: timedelta | float | None = None
    checks: tuple[Check, ...] = ()
    #: Stateful pipelines: the user's function, and the columns of the state.
    fold: Fold | None = None
    state: str = ""
    #: Arrow pipelines: the columns of a batch besides `key`, `value` and `origin`. None for a pipeline of DataFrames.
    batch_columns: tuple[str, ...] | None = None
    #: What Dagster shows of the assets of the pipeline, see `Options`.
    owners: Sequence[str] = field(default=(), hash=False)
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    group: str = ""
    description: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def code_version(self) -> str:
        return str(self.version)

    @property
    def stateful(self) -> bool:
        return self.fold is not None

    @property
    def takes_batches(self) -> bool:
        """Whether the transform is a function of Arrow batches."""
        return self.batch_columns is not None

    @property
    def freshness(self) -> timedelta | None:
        """How old the last commit may be; None if that is not declared."""
        return None if self.fresh_within is None else as_freshness(self.name, self.fresh_within)

    @property
    def asset_group(self) -> str:
        """The group of the pipeline's assets in Dagster."""
        return self.group or self.name

    @property
    def skips_repeats(self) -> bool:
        return self.unique is not None and self.unique.within is not None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,99}", self.name):
            raise EosError(
                f"The pipeline name {self.name!r} is not valid.",
                "Use at most 100 lowercase letters, digits and '_', and start with a letter or '_'.",
            )
        if self.name in RESERVED:
            raise EosError(f"The pipeline name {self.name!r} is reserved in Dagster.", "Use another name.")
        self._check_topics()
        self._check_options()
        _ = self.freshness  # refuses a time that is not valid
        check_asset_options(self.name, self.owners, self.tags, self.group, self.metadata)

    def _check_topics(self) -> None:
        if not self.sinks:
            raise EosError(f"Pipeline {self.name} declares no sink.", "Declare the topic that it writes.")
        own = self.names()
        names = [self.source.name, *(sink.name for sink in self.sinks), own.dead_letters]
        names += [own.ledger, own.provenance, own.changelog, own.seen]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise EosError(
                f"Pipeline {self.name} uses a topic for two purposes: {', '.join(repeated)}.",
                "Use different topics for source, sinks and dead letters, and no name that starts with eos.",
            )
        for sink in self.sinks:
            if sink.compacted:
                raise EosError(
                    f"The sink {sink.name} of pipeline {self.name} is declared compacted.",
                    "Declare it without compaction: a proof cannot tell a compacted record from a lost one.",
                )

    def _check_options(self) -> None:
        if self.drops and not self.deterministic:
            raise EosError(
                f"Pipeline {self.name} declares drops=True and deterministic=False.",
                "Return rows with skip = true instead of filtering: only a deterministic transform can be run again to "
                "prove what it drops.",
            )
        if self.generation < 1:
            raise EosError(f"Pipeline {self.name}: generation={self.generation} is not valid.", "Use 1 or more.")
        for option, allowed in (("on_error", get_args(OnError)), ("durability", get_args(Durability))):
            if getattr(self, option) not in allowed:
                raise EosError(
                    f"Pipeline {self.name}: {option}={getattr(self, option)!r} is not valid.",
                    f"Use {' or '.join(map(repr, allowed))}.",
                )
        if self.skips_repeats and not self.stateful:
            raise EosError(
                f"Pipeline {self.name} declares Unique(within=…) and keeps no state.",
                "Declare it with @stateful: skipping repeats needs the business keys of earlier records.",
            )

    def names(self, mode: Mode = Mode.EXACTLY_ONCE) -> Names:
        return Names(self.name, self.source.name, self.sinks[0].name, mode, self.generation)

    def own_topics(self, mode: Mode = Mode.EXACTLY_ONCE) -> list[Topic]:
        """The topics that the pipeline writes: sinks, dead letters, ledger, provenance and changelogs."""
        names, first = self.names(mode), self.sinks[0]
        own = Topic(names.ledger, self.source.partitions, first.replication)
        return [
            *(replace(sink, name=names.sink(sink.name)) for sink in self.sinks),
            replace(
                own,
                name=names.dead_letters,
                retention_ms=first.retention_ms,
                max_message_bytes=self.source.max_message_bytes,
            ),
            replace(own, retention_ms=FOREVER),
            replace(own, name=names.provenance, retention_ms=first.retention_ms),
            *(
                replace(
                    own,
                    name=changelog,
                    compacted=True,
                    max_message_bytes=first.max_message_bytes,
                    delete_retention_ms=TOMBSTONES_MS,
                )
                for changelog in self.changelogs(mode)
            ),
        ]

    def changelogs(self, mode: Mode = Mode.EXACTLY_ONCE) -> tuple[str, ...]:
        """The topics of a stateful pipeline's state, and of the business keys that it has seen."""
        names = self.names(mode)
        if not self.stateful:
            return ()
        return (names.changelog, names.seen) if self.skips_repeats else (names.changelog,)


def pipeline(
    *,
    source: Topic | str,
    sink: Topic | str | Sequence[Topic | str],
    deterministic: bool = True,
    ordered: bool = False,
    code_version: str | None = None,
    **options: Unpack[Options],
) -> Callable[[Transform], Pipeline]:
    """Declare a pipeline around a transform, a function from DataFrame to DataFrame.

    Args:
        source: the topic it reads; a name alone is a topic of three partitions.
        sink: the topic it writes. Several may be declared; then the column `topic` of a row names its sink.
        deterministic: False if the transform looks things up elsewhere, so that running it again may return something
            else. Then `values_recompute` is not evaluated.
        ordered: functions over whole batches (`mapInPandas`, `mapInArrow`) return all rows of a record together, in
            the order of the records. Otherwise their rows are sorted before the first one is written.
        code_version: default: a digest of the function and of what it uses of its own package. Outputs of another
            version are not compared with those of the current code.
        options: see `Options`.
    """
    topic, sinks = as_topic(source), as_topics(sink)

    def declare(transform: Transform) -> Pipeline:
        defaults: Options = {"name": name_of(transform), "description": docstring_of(transform)}
        merged: Options = {**defaults, **options}
        check_options(merged["name"], merged)
        check_parameters(merged["name"], transform, "records")
        return Pipeline(
            source=topic,
            sinks=sinks,
            transform=transform,
            version=code_version or CodeVersion(transform, sinks),
            deterministic=deterministic,
            ordered=ordered,
            **merged,
        )

    return declare
