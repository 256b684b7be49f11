"""The declaration of a stateful pipeline: outputs and changed state commit together."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Unpack

from eos_assets.declare.code_version import CodeVersion, docstring_of, name_of
from eos_assets.declare.options import Batching, Options, check_options, check_parameters
from eos_assets.declare.pipeline import Fold, Pipeline
from eos_assets.declare.topic import Topic, as_topic, as_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The state of a transaction is computed in one Spark job, so its transactions are smaller.
STATEFUL_BATCHING = Batching(records=500_000)


def stateful(
    *,
    source: Topic | str,
    sink: Topic | str | Sequence[Topic | str],
    state: str,
    code_version: str | None = None,
    **options: Unpack[Options],
) -> Callable[[Fold], Pipeline]:
    """Declare a pipeline around a fold: `f(f(s, A), B) == f(s, A + B)`, for outputs and state alike.

    The function receives `records`, as a transform does, and `state`: one row per key of the source, with the declared
    columns after `key`. It returns the outputs, as a transform does, and the changed state: `key` and the declared
    columns, at most one row per key; a row with `deleted = true` removes its key. All records of a key are in one
    partition, in the order of `origin.offset`. The function must be deterministic, because outputs and state are two
    DataFrames and Spark may compute what they share twice.

    Args:
        source: the topic it reads, keyed by the state's key and partitioned as Kafka's Java client does it.
        sink: the topic it writes. Several may be declared; then the column `topic` of a row names its sink.
        state: the columns of the state as in SQL, for example "balance decimal(38,2), currency string".
        code_version: see `pipeline`.
        options: see `Options`. A record in a partition where its key does not belong is handled by `on_error`, too.
            With `Unique(by, within)` repeated records are skipped.
    """
    topic, sinks = as_topic(source), as_topics(sink)

    def declare(fold: Fold) -> Pipeline:
        def fold_from_empty_state(records: "DataFrame") -> "DataFrame":
            return fold(records, empty_state(records.sparkSession, state))[0]

        defaults: Options = {
            "name": name_of(fold),
            "description": docstring_of(fold),
            "batching": STATEFUL_BATCHING,
        }
        merged: Options = {**defaults, **options}
        check_options(merged["name"], merged)
        check_parameters(merged["name"], fold, "records", "state")
        return Pipeline(
            source=topic,
            sinks=sinks,
            transform=fold_from_empty_state,
            version=code_version or CodeVersion(fold, sinks),
            fold=fold,
            state=state,
            **merged,
        )

    return declare


def empty_state(spark: "SparkSession", columns: str) -> "DataFrame":
    """The state before the first record, as a function receives it."""
    return spark.createDataFrame([], f"key binary, {columns}")
