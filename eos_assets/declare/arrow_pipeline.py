"""The declaration of an Arrow pipeline: its function is called on Arrow batches, inside Spark's tasks."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from eos_assets.declare.code_version import CodeVersion, docstring_of, name_of
from eos_assets.declare.options import Options, check_options, check_parameters
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic, as_topic, as_topics
from eos_assets.errors import EosError

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns of a batch in addition to `key`, `value` and `origin`.
MORE_COLUMNS = ("timestamp", "headers", "partition")


def arrow_pipeline(
    *,
    source: Topic | str,
    sink: Topic | str | Sequence[Topic | str],
    columns: Sequence[str] = (),
    deterministic: bool = True,
    code_version: str | None = None,
    **options: Unpack[Options],
) -> "Callable[[Callable[[pa.RecordBatch], Any]], Pipeline]":
    """Declare a pipeline around a function from an Arrow batch to an Arrow batch.

    The records go from the broker to Arrow and back, inside Spark's tasks and past its JVM. A batch holds `key` and
    `value` as bytes, and `origin`, the offset of each record in the source partition. The function returns the columns
    that a transform of DataFrames returns, `origin` included, as an Arrow batch or table, or as a DataFrame of polars
    or pandas. Each row must come from one record alone: batches are cut anywhere. Joins of streams, shuffles and state
    need a pipeline of DataFrames.

    Args:
        source: the topic it reads; a name alone is a topic of three partitions.
        sink: the topic it writes. Several may be declared; then the column `topic` of a row names its sink.
        columns: more columns of the batches: `timestamp`, `headers` and `partition`. The first two take a call for
            each record.
        deterministic: see `pipeline`.
        code_version: see `pipeline`.
        options: see `Options`.
    """
    topic, sinks = as_topic(source), as_topics(sink)

    def declare(function: "Callable[[pa.RecordBatch], Any]") -> Pipeline:
        defaults: Options = {"name": name_of(function), "description": docstring_of(function)}
        merged: Options = {**defaults, **options}
        check_stateless(merged["name"], merged)
        check_options(merged["name"], merged)
        check_parameters(merged["name"], function, "records")
        check_columns(merged["name"], columns)
        return Pipeline(
            source=topic,
            sinks=sinks,
            transform=function,
            version=code_version or CodeVersion(function, sinks),
            deterministic=deterministic,
            ordered=True,
            batch_columns=tuple(columns),
            **merged,
        )

    return declare


def check_stateless(pipeline: str, options: Mapping[str, object]) -> None:
    if "state" in options:
        raise EosError(
            f"Pipeline {pipeline}: an Arrow pipeline has no state.",
            "Declare it with eos.stateful, as a function of DataFrames.",
        )


def check_columns(pipeline: str, columns: Sequence[str]) -> None:
    unknown = [columns] if isinstance(columns, str) else [name for name in columns if name not in MORE_COLUMNS]
    if unknown:
        raise EosError(
            f"Pipeline {pipeline}: columns={columns!r} is not valid.",
            f"Use a list of {', '.join(map(repr, MORE_COLUMNS))}. Every batch has `key`, `value` and `origin`.",
        )
