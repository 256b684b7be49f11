"""The options of a pipeline."""

import difflib
import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict

from eos_assets.declare.check import Check
from eos_assets.errors import EosError

OnError = Literal["stop", "isolate"]
Durability = Literal["dev", "production"]
MIN_TIMEOUT_MS = 1000
#: Dagster evaluates no shorter window.
MIN_FRESHNESS = timedelta(minutes=1)

#: What Dagster accepts. It is checked here, because Dagster would raise a trace, and only when it loads the pipeline.
OWNER = re.compile(r"\w[\w.%+-]*@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}|team:.+", re.ASCII)
TAG_KEY = re.compile(r"([\w.-]{1,63}/|dagster/kind/)?[\w.-]{1,63}", re.ASCII)
TAG_VALUE = re.compile(r"[\w.-]{0,63}", re.ASCII)
GROUP = re.compile(r"\w+(/\w+)*", re.ASCII)
#: Names that Dagster reserves, and the keywords of Python.
RESERVED = {*keyword.kwlist, "arg_dict", "bool", "conf", "config", "context", "dict", "float", "input"}
RESERVED |= {"input_arg_dict", "int", "meta", "output", "output_arg_dict", "str", "type"}


@dataclass(frozen=True)
class Batching:
    """About how many source records and bytes of output one transaction takes, and how long it may be open.

    Readers of committed data see the outputs of a transaction when it has ended: small transactions shorten the
    latency, large ones cost less per record. The records of a stateful pipeline are counted in offsets.
    """

    records: int = 1_000_000
    bytes: int = 256 << 20
    #: The broker aborts a transaction that is open for longer. It is committed at half of this time.
    timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        for limit in ("records", "bytes"):
            if getattr(self, limit) < 1:
                raise EosError(f"Batching({limit}={getattr(self, limit)}) is not valid.", "Use at least 1.")
        if self.timeout_ms < MIN_TIMEOUT_MS:
            raise EosError(
                f"Batching(timeout_ms={self.timeout_ms}) is not valid.",
                f"Use at least {MIN_TIMEOUT_MS}: Kafka's client accepts no shorter transaction timeout.",
            )


@dataclass(frozen=True)
class Unique:
    """The business key of a source record, and whether repeated records are skipped."""

    #: A SQL expression over `key`, `value` and `headers`.
    by: str = "key"
    #: Stateful pipelines only: skip a record if its business key occurs within this number of offsets before it.
    within: int | None = None

    def __post_init__(self) -> None:
        if self.within is not None and self.within < 1:
            raise EosError(f"Unique(within={self.within}) is not valid.", "Use a number of offsets, at least 1.")


class Options(TypedDict, total=False):
    """The options that both kinds of pipelines have. Each is optional.

    name: default: the name of the function.
    drops: the function leaves records out instead of returning `skip = true` for them.
    shared_sink: other producers write to the sink, too.
    on_error: whether a record on which the function raises stops its partition ("stop", the default) or becomes a dead
        letter ("isolate").
    max_isolated: how many records one run may isolate; default 10.
    batching: the size of a transaction.
    durability: "production" requires replicated topics; "dev", the default, accepts a single broker.
    unique: the business key of a source record. With it, the check `source_is_unique` is evaluated.
    generation: a higher number starts again at the first record that the source still holds, with a new ledger. It
        needs a new sink, or `shared_sink`, because the records of an earlier generation are not its own.
    fresh_within: how old the last commit may be, as a timedelta or in seconds. Dagster shows the sinks as late after
        that time, and a partition that lags for longer raises an alert.
    checks: more checks, in addition to the invariants of every pipeline.
    owners: email addresses and teams ("team:payments") that own the assets of the pipeline in Dagster.
    tags: tags of these assets.
    group: their group; default: the name of the pipeline.
    description: what the pipeline does, in Markdown; default: the docstring of the function.
    metadata: more metadata of these assets.
    """

    name: str
    drops: bool
    shared_sink: bool
    on_error: OnError
    max_isolated: int
    batching: Batching
    durability: Durability
    unique: Unique
    generation: int
    fresh_within: timedelta | float
    checks: tuple[Check, ...]
    owners: Sequence[str]
    tags: Mapping[str, str]
    group: str
    description: str
    metadata: Mapping[str, Any]


#: Option → its type, and a value to use. The others are checked by their values.
TYPES: dict[str, tuple[type, str]] = {
    "name": (str, "a string"),
    "drops": (bool, "True or False"),
    "shared_sink": (bool, "True or False"),
    "max_isolated": (int, "a number"),
    "batching": (Batching, "eos.Batching(records=100_000)"),
    "unique": (Unique, 'eos.Unique(by="key")'),
    "generation": (int, "a number, 1 or more"),
    "tags": (Mapping, "a dictionary"),
    "group": (str, "a string"),
    "description": (str, "a string"),
    "metadata": (Mapping, "a dictionary"),
}


def check_options(pipeline: str, options: Mapping[str, object]) -> None:
    """Refuse options that do not exist, and values of another type."""
    for name, value in options.items():
        if name not in Options.__annotations__:
            near = difflib.get_close_matches(name, Options.__annotations__, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise EosError(
                f"Pipeline {pipeline}: {name} is not an option.",
                f"{hint}The options are: {', '.join(Options.__annotations__)}.",
            )
        expected, example = TYPES.get(name, (object, ""))
        if not isinstance(value, expected):
            raise EosError(f"Pipeline {pipeline}: {name}={value!r} is not valid.", f"Use {example}.")


def check_parameters(pipeline: str, function: Callable[..., object], *names: str) -> None:
    """Refuse a function that cannot be called with arguments of these names."""
    signature = inspect.signature(function)
    try:
        signature.bind(*names)
    except TypeError as error:
        raise EosError(
            f"Pipeline {pipeline}: the function takes {signature} instead of ({', '.join(names)}).",
            f"Declare it as `def {pipeline}({', '.join(names)}):`.",
        ) from error


def as_freshness(pipeline: str, fresh_within: timedelta | float) -> timedelta:
    """The declared time. Refuse one that Dagster does not accept."""
    try:
        time = fresh_within if isinstance(fresh_within, timedelta) else timedelta(seconds=fresh_within)
        if isinstance(fresh_within, bool) or time < MIN_FRESHNESS:
            raise ValueError
    except (TypeError, ValueError, OverflowError):  # not a number, or not one of seconds
        raise EosError(
            f"Pipeline {pipeline}: fresh_within={fresh_within!r} is not valid.",
            "Use a timedelta or a number of seconds, at least one minute: timedelta(minutes=15).",
        ) from None
    return time


def check_asset_options(
    pipeline: str, owners: Sequence[str], tags: Mapping[str, str], group: str, metadata: Mapping[str, Any]
) -> None:
    """Refuse options of the pipeline's assets that Dagster does not accept."""
    if isinstance(owners, str):
        raise EosError(f"Pipeline {pipeline}: owners={owners!r} is not valid.", f"Use a list: owners=[{owners!r}].")
    for owner in owners:
        if not OWNER.fullmatch(owner):
            raise EosError(
                f"Pipeline {pipeline}: the owner {owner!r} is not valid.",
                "Use an email address, or 'team:' and the name of a team.",
            )
    for key, value in tags.items():
        if not (TAG_KEY.fullmatch(key) and isinstance(value, str) and TAG_VALUE.fullmatch(value)):
            raise EosError(
                f"Pipeline {pipeline}: the tag {key!r}: {value!r} is not valid.",
                "Use at most 63 letters, digits, '_', '-' and '.' for key and value; a key may have a namespace before "
                "a '/'.",
            )
    if group and not GROUP.fullmatch(group):
        raise EosError(
            f"Pipeline {pipeline}: group={group!r} is not valid.",
            "Use letters, digits and '_', and '/' between the levels of a hierarchy.",
        )
    for name in metadata:
        if not isinstance(name, str):
            raise EosError(f"Pipeline {pipeline}: the name {name!r} of a metadata entry is not valid.", "Use a string.")
