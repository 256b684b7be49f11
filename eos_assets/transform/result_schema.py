"""The transform's result: checked before anything runs, and cut down to the columns that must travel to the worker."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import Code, EosError
from eos_assets.log.dead_letter import REASON_CHARACTERS
from eos_assets.log.digest import KEY, VALUE, digest_expression
from eos_assets.log.ranges import OffsetRange
from eos_assets.transform.combined_records import refuse_wrong
from eos_assets.transform.spark_errors import MARK
from eos_assets.transform.spark_plan import explained, source_plan
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


def transformed(pipeline: Pipeline, records: "DataFrame", ranges: Sequence[OffsetRange] = ()) -> "DataFrame":
    """What the pipeline's transform makes of the records of some ranges, checked; a clear error if Spark cannot plan
    it."""
    with planning(pipeline, ranges):
        result = pipeline.transform(records)
        check_frame(result, pipeline, ranges)
        try:
            check_shape(result, pipeline.name)
        except EosError:  # a result that combines records has lost its origins, and to keep them is no way out
            refuse_wrong(source_plan(explained(result), pipeline.source.name), pipeline)
            raise
    return result


def check_shape(result: "DataFrame", pipeline: str) -> None:
    """A clear error for a result that cannot be written, before anything runs."""
    found = {field.name: field.dataType.simpleString() for field in result.schema.fields}
    twice = sorted({name for name in result.columns if result.columns.count(name) > 1})
    if twice:
        raise EosError(
            f"The result of {pipeline} has more than one column `{twice[0]}`.", "Keep one of them, or rename the other."
        )
    origin = ",".join(f"{name}:{kind}" for name, kind in ORIGIN.items())
    if found.get("origin") != f"struct<{origin}>":
        raise EosError(
            f"The result of {pipeline} has no column `origin`{', or a changed one' * ('origin' in found)}.",
            "Keep it: select it along (`records.select(…, 'origin')`); it says which source record a row came from.",
        )
    if "value" not in found:
        raise EosError(f"The result of {pipeline} has no column `value`.", "Name what is to be written `value`.")
    for name, kind in found.items():
        if name == "origin":
            continue
        if name not in COLUMNS:
            raise EosError(
                f"The result of {pipeline} has a column `{name}`, which means nothing here.",
                f"Drop it; a result may have {', '.join([*COLUMNS, 'origin'])}.",
            )
        if kind not in COLUMNS[name][0]:
            raise EosError(
                f"Column `{name}` in the result of {pipeline} is {kind}.",
                f"Make it {' or '.join(sorted(COLUMNS[name][0]))}.",
            )


def originless(pipeline: Pipeline) -> EosError:
    return EosError(
        f"The transform of {pipeline.name} returned a row without an origin: its `origin` is null, and it came from no "
        "source record.",
        "Leave such rows out (`where origin is not null`), or join with `left`: a right or full outer join also gives "
        "what matches no record. Nothing of the failed slices is visible.",
    )


#: In swift batches no key and no value may be larger, or the job fails with a code and is run with care. So the values
#: of 10,000 rows take 80 MB at most.
SWIFT_BYTES = 8 << 10


def travelling(result: "DataFrame", *, swift: bool = False) -> "DataFrame":
    """The flat columns that a task needs. Fewer columns are faster: the way from the JVM to the worker costs most. They
    are told in SQL, in one call: each `Column` takes Python and the JVM a millisecond.

    Args:
        result: what the transform returned.
        swift: the rows travel in batches whose size nobody watches, so a large record must stop the job.
    """
    present = set(result.columns)
    key = KEY if "key" in present else "CAST(NULL AS binary)"
    columns = {
        # Not `origin.partition`: in a result with the alias `origin` that would be its column `partition`.
        "o_partition": "`origin`['partition']",
        "o_offset": "`origin`['offset']",
        "o_ordinal": "`origin`['ordinal']",
        "key": guarded(key) if swift else key,
        "value": guarded(VALUE) if swift else VALUE,
        "digest": digest_expression(key, with_headers="headers" in present),
    }
    for name in ("headers", "topic", "partition", "skip", "content_digest"):
        if name in present:
            columns[name] = f"CAST(`{name}` AS {COLUMNS[name][1]})"
    if "error" in present:  # as bytes: a reason may quote a record that is no UTF-8, or a very long one
        columns["error"] = f"substring(CAST(`error` AS binary), 1, {4 * REASON_CHARACTERS})"
    if "sequence" in present:
        columns["sequence"] = numbered(present)
    columns |= {name: f"`{name}`" for name in ("repeat", "store") if name in present}  # the engine's own
    if "timestamp" in present:
        columns["timestamp"] = "unix_millis(`timestamp`)"
    return result.selectExpr(*(f"{told} AS `{name}`" for name, told in columns.items()))


def numbered(present: set[str]) -> str:
    """The sequence that the transform gave; 0 where a row without one is no output."""
    no_output = ["false"]
    if "error" in present:
        no_output.append("`error` IS NOT NULL")
    if "skip" in present:
        no_output.append("coalesce(`skip`, false)")
    return f"coalesce(CAST(`sequence` AS bigint), CASE WHEN {' OR '.join(no_output)} THEN 0L END)"


def guarded(column: str) -> str:
    too_large = f"raise_error('{MARK}{Code.BATCH_TOO_LARGE}:')"
    return f"CASE WHEN octet_length({column}) > {SWIFT_BYTES} THEN {too_large} ELSE {column} END"
