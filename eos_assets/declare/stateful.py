"""What a user writes to combine records: a function from records and state to outputs and changed state."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from eos_assets.declare.check import Fact
from eos_assets.declare.code_version import code_version as version_of
from eos_assets.declare.code_version import name_of
from eos_assets.declare.pipeline import Fold, Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def stateful(
    *,
    source: Topic,
    sink: Topic | Sequence[Topic],
    state: str,
    name: str | None = None,
    drops: bool = False,
    shared_sink: bool = False,
    on_error: Literal["stop", "isolate"] = "stop",
    max_isolated: int = 10,
    transaction_records: int = 500_000,
    transaction_timeout_ms: int = 60_000,
    durability: Literal["dev", "production"] = "dev",
    unique_by: str | None = None,
    unique_within: int | None = None,
    generation: int = 1,
    facts: tuple[Fact, ...] = (),
    code_version: str | None = None,
) -> Callable[[Fold], Pipeline]:
    """Declares a pipeline around a fold: `f(f(s, A), B) == f(s, A + B)`, outputs and state alike.

    The function gets `records`, as a transform does, and `state`: one row per key of the source, with the declared
    columns behind `key`. It returns the outputs, as a transform does, and the changed state: `key` and the declared
    columns, at most one row per key; a row with `deleted = true` removes its key. Records of one key are all in one
    partition, in the order of `origin.offset`. The function must be deterministic: outputs and state are two frames,
    and Spark may compute what they share twice.

    Args:
        source: the topic it reads, keyed by the state's key as Kafka's Java client does it.
        sink: the topic it writes; several may be given, and a row then says in `topic` where it goes.
        state: the columns of the state, as in SQL: "balance decimal(38,2), currency string".
        name: default: the function's name.
        drops: the function leaves records out instead of saying `skip`.
        shared_sink: others write to the sink too.
        on_error: whether a record that makes the function raise, or that lies in a partition where its key does not
            belong, stops its partition, or becomes a dead letter.
        max_isolated: how many records that make it raise one run may set aside.
        transaction_records: how many offsets of a partition go into one transaction.
        transaction_timeout_ms: after this long without a commit the broker aborts.
        durability: "production" insists on replicated topics; "dev" is fine with one broker.
        unique_by: the business key of a source record, a SQL expression over `key`, `value` and `headers`; with
            `unique_within` the default is the key of the record.
        unique_within: a record is skipped as a repeat if its business key came in one of so many offsets before it.
        generation: a higher number begins anew, from an empty state; see `pipeline`.
        facts: what else it is to be checked for, beside the invariants.
        code_version: see `pipeline`.
    """
    if unique_within is not None and unique_within < 1:
        raise EosError(f"unique_within={unique_within} is no horizon.", "Give a number of offsets, at least 1.")

    sinks = (sink,) if isinstance(sink, Topic) else tuple(sink)

    def declare(fold: Fold) -> Pipeline:
        def from_nothing(records: "DataFrame") -> "DataFrame":
            return fold(records, no_state(records.sparkSession, state))[0]

        return Pipeline(
            name=name or name_of(fold),
            source=source,
            sinks=sinks,
            transform=from_nothing,
            code_version=code_version or version_of(fold, sinks),
            drops=drops,
            shared_sink=shared_sink,
            on_error=on_error,
            max_isolated=max_isolated,
            transaction_records=transaction_records,
            transaction_timeout_ms=transaction_timeout_ms,
            durability=durability,
            unique_by=unique_by or ("key" if unique_within else None),
            generation=generation,
            facts=facts,
            fold=fold,
            state=state,
            unique_within=unique_within,
        )

    return declare


def no_state(spark: "SparkSession", columns: str) -> "DataFrame":
    """The state before the first record, as a function gets it; for unit tests too."""
    return spark.createDataFrame([], f"key binary, {columns}")
