"""The transform's result: checked before anything runs, and cut down to the columns that must travel to the worker."""

from typing import TYPE_CHECKING

from eos_assets.errors import EosError
from eos_assets.exactly_once.job import REASON_CHARACTERS
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.exactly_once.spark_errors import brief

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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


def transformed(pipeline: Pipeline, records: "DataFrame") -> "DataFrame":
    """What the pipeline's transform makes of records, checked; a clear error if Spark cannot plan it."""
    try:
        result = pipeline.transform(records)
        check_shape(result, pipeline.name)
    except EosError:
        raise
    except Exception as failure:
        raise EosError(
            f"The transform of {pipeline.name} cannot be planned: {brief(failure)}",
            "Mend the transform; nothing was read or written.",
        ) from failure
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


#: In swift batches no key and no value may be larger, or the job fails with the word below and is run with care. So
#: the values of 10,000 rows take 80 MB at most.
SWIFT_BYTES = 8 << 10
TOO_LARGE = "EOS_TOO_LARGE_FOR_SWIFT_BATCHES"


def travelling(result: "DataFrame", *, swift: bool = False) -> "DataFrame":
    """The flat columns that a task needs. Fewer columns are faster: the way from the JVM to the worker costs most.

    Args:
        result: what the transform returned.
        swift: the rows travel in batches whose size nobody watches, so a large record must stop the job.
    """
    from pyspark.sql import functions as f

    present = set(result.columns)
    written = result
    if "key" not in present:
        written = written.withColumn("key", f.lit(None).cast("binary"))
    columns: list[Column] = [
        f.col("origin.partition").alias("o_partition"),
        f.col("origin.offset").alias("o_offset"),
        f.col("origin.ordinal").alias("o_ordinal"),
        guarded("key", swift=swift),
        guarded("value", swift=swift),
        digest(with_headers="headers" in present).alias("digest"),
    ]
    for name in ("headers", "topic", "partition", "skip", "content_digest"):
        if name in present:
            columns.append(f.col(name).cast(COLUMNS[name][1]).alias(name))
    if "error" in present:  # as bytes: a reason may quote a record that is no UTF-8, or a very long one
        columns.append(f.substring(f.col("error").cast("binary"), 1, 4 * REASON_CHARACTERS).alias("error"))
    if "sequence" in present:
        columns.append(numbered(present).alias("sequence"))
    columns += [f.col(name) for name in ("repeat", "store") if name in present]  # the engine's own
    if "timestamp" in present:
        columns.append(f.unix_millis("timestamp").alias("timestamp"))
    return written.select(*columns)


def numbered(present: set[str]) -> "Column":
    """The sequence that the transform gave; 0 where a row without one is no output."""
    from pyspark.sql import functions as f

    given = f.col("sequence").cast("bigint")
    no_output = f.lit(False)
    if "error" in present:
        no_output |= f.col("error").isNotNull()
    if "skip" in present:
        no_output |= f.coalesce(f.col("skip"), f.lit(False))
    return f.coalesce(given, f.when(no_output, f.lit(0).cast("bigint")))


def guarded(name: str, *, swift: bool) -> "Column":
    from pyspark.sql import functions as f

    column = f.col(name).cast("binary")
    if swift:
        column = f.when(f.octet_length(column) > SWIFT_BYTES, f.raise_error(f.lit(TOO_LARGE))).otherwise(column)
    return column.alias(name)


def digest(*, with_headers: bool) -> "Column":
    """The digest of a record as it stands in its partition: key and value, with nulls told from empty ones, and the
    headers if the pipeline writes any. The place of a record needs no hashing: sums are kept per place."""
    from pyspark.sql import functions as f

    key, value = f.col("key").cast("binary"), f.col("value").cast("binary")
    columns = [key, key.isNull(), value, value.isNull()]
    return f.xxhash64(*columns, f.col("headers")) if with_headers else f.xxhash64(*columns)
