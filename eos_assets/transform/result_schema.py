"""The schema of the transform's result, and the columns of it that travel to the worker."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import Code, EosError
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.log.dead_letter import REASON_CHARACTERS
from eos_assets.log.digest import KEY, VALUE, digest_expression
from eos_assets.transform.arrow_function import FRAME, ArrowFunction, frame_task
from eos_assets.transform.combined_records import refuse_combined_records
from eos_assets.transform.spark_errors import MARK
from eos_assets.transform.spark_plan import explain, source_plan
from eos_assets.transform.user_code import check_frame, planning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADERS = "array<struct<key:string,value:binary>>"
#: Column → the types it may have, as Spark names them, and the type it gets.
COLUMNS = {
    "value": ({"binary", "string"}, "binary"),
    "key": ({"binary", "string"}, "binary"),
    "headers": ({HEADERS}, HEADERS),
    "timestamp": ({"timestamp"}, "timestamp"),
    "topic": ({"string"}, "string"),
    "partition": ({"int", "bigint", "smallint", "tinyint"}, "bigint"),
    "sequence": ({"int", "bigint", "smallint", "tinyint"}, "bigint"),
    "error": ({"string"}, "string"),
    "skip": ({"boolean"}, "boolean"),
    "content_digest": ({"string"}, "string"),
}
ORIGIN = {"partition": "int", "offset": "bigint", "ordinal": "bigint"}
#: The largest key or value in fast batches, so that 10,000 rows take 80 MB at most. A larger one fails the job with a
#: code, and the job runs again with careful batches.
FAST_BYTES = 8 << 10


def apply_transform(pipeline: Pipeline, records: "DataFrame", ranges: Sequence[OffsetRange] = ()) -> "DataFrame":
    """Apply the pipeline's transform to the records of some ranges, and check its result. Nothing runs yet."""
    if pipeline.takes_batches:
        return records.mapInArrow(frame_task(ArrowFunction.of(pipeline)), FRAME)
    with planning(pipeline, ranges):
        result: DataFrame = pipeline.transform(records)
        check_frame(result, pipeline, ranges)
        try:
            check_schema(result, pipeline.name)
        except EosError:  # a result that combines records has lost its origins, and keeping them would not help
            refuse_combined_records(source_plan(explain(result), pipeline.source.name), pipeline)
            raise
    return result


def check_schema(result: "DataFrame", pipeline: str) -> None:
    """Refuse a result that cannot be written, before anything runs."""
    types = {field.name: field.dataType.simpleString() for field in result.schema.fields}
    repeated = sorted({name for name in result.columns if result.columns.count(name) > 1})
    if repeated:
        raise EosError(f"The result of {pipeline} has more than one column `{repeated[0]}`.", "Keep one of them.")
    origin = ",".join(f"{name}:{kind}" for name, kind in ORIGIN.items())
    if types.get("origin") != f"struct<{origin}>":
        problem = f"has a column `origin` of type {types['origin']}" if "origin" in types else "has no column `origin`"
        raise EosError(
            f"The result of {pipeline} {problem}.",
            "Select it unchanged (`records.select(…, 'origin')`): it names the source record that a row came from.",
        )
    if "value" not in types:
        raise EosError(
            f"The result of {pipeline} has no column `value`.",
            "Give the column that is to be written the name `value`.",
        )
    for name, kind in types.items():
        if name == "origin":
            continue
        if name not in COLUMNS:
            raise EosError(
                f"The result of {pipeline} has an unknown column `{name}`.",
                f"Drop it. A result may have {', '.join([*COLUMNS, 'origin'])}.",
            )
        if kind not in COLUMNS[name][0]:
            raise EosError(
                f"Column `{name}` in the result of {pipeline} is {kind}.",
                f"Make it {' or '.join(sorted(COLUMNS[name][0]))}.",
            )


def row_without_origin(pipeline: Pipeline) -> EosError:
    return EosError(
        f"The transform of {pipeline.name} returned a row without an origin: its `origin` is null, so it came from no "
        "source record. Nothing of the failed transactions is visible.",
        "Filter such rows out (`where origin is not null`), or join with `left`: a right or full outer join also "
        "returns what matches no record.",
    )


def worker_rows(result: "DataFrame", *, fast: bool = False) -> "DataFrame":
    """Select the columns that a task needs. The way from the JVM to the worker costs most, and few columns shorten it.
    They are SQL texts in one call, because each `Column` costs Python and the JVM a millisecond.

    Args:
        result: what the transform returned.
        fast: the rows travel in batches without a limit of bytes, so a large record must fail the job.
    """
    present = set(result.columns)
    key = KEY if "key" in present else "CAST(NULL AS binary)"
    columns = {
        # Not `origin.partition`: in a result with the alias `origin` that would be its column `partition`.
        "o_partition": "`origin`['partition']",
        "o_offset": "`origin`['offset']",
        "o_ordinal": "`origin`['ordinal']",
        "key": fail_if_large(key) if fast else key,
        "value": fail_if_large(VALUE) if fast else VALUE,
        "digest": digest_expression(key, with_headers="headers" in present),
    }
    for name in ("headers", "topic", "partition", "skip", "content_digest"):
        if name in present:
            columns[name] = f"CAST(`{name}` AS {COLUMNS[name][1]})"
    if "error" in present:  # as bytes: a reason may quote a record that is not UTF-8, or a very long one
        columns["error"] = f"substring(CAST(`error` AS binary), 1, {4 * REASON_CHARACTERS})"
    if "sequence" in present:
        columns["sequence"] = sequence_column(present)
    columns |= {name: f"`{name}`" for name in ("repeat", "store") if name in present}  # the engine's own
    if "timestamp" in present:
        columns["timestamp"] = "unix_millis(`timestamp`)"
    return result.selectExpr(*(f"{expression} AS `{name}`" for name, expression in columns.items()))


def sequence_column(present: set[str]) -> str:
    """The sequence that the transform returned; 0 where a row without one is not an output."""
    no_output = ["false"]
    if "error" in present:
        no_output.append("`error` IS NOT NULL")
    if "skip" in present:
        no_output.append("coalesce(`skip`, false)")
    return f"coalesce(CAST(`sequence` AS bigint), CASE WHEN {' OR '.join(no_output)} THEN 0L END)"


def fail_if_large(column: str) -> str:
    """A column that fails the job where it is too large for fast batches."""
    too_large = f"raise_error('{MARK}{Code.BATCH_TOO_LARGE}:')"
    return f"CASE WHEN octet_length({column}) > {FAST_BYTES} THEN {too_large} ELSE {column} END"
