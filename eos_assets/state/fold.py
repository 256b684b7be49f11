"""Records and state in; all rows that one job writes out: outputs, dead letters, skipped repeats and changed state."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eos_assets.declare.fold_by_key import SinglePassResult
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import Code, EosError
from eos_assets.kafka.partitioner import partitions_of
from eos_assets.log.digest import digest_column
from eos_assets.log.ranges import OffsetRange
from eos_assets.state.changelog import SEEN, STATE, column_types, encoded, stores
from eos_assets.transform.business_key import business_key
from eos_assets.transform.result_schema import check_shape, travelling
from eos_assets.transform.spark_errors import raise_code
from eos_assets.transform.user_code import check_pair, planning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD = ["key", "value", "headers", "timestamp", "origin"]


@dataclass(frozen=True)
class Folded:
    """What a fold gave: rows as they travel to the writer, and changes of each store as partition, key and value."""

    outputs: "DataFrame"
    changes: list["DataFrame"]
    #: Outputs and changes of the state alike, where the function made them in one pass.
    together: "DataFrame | None" = None
    #: Engine rows: dead letters and repeats. They are among the outputs.
    more: tuple["DataFrame", ...] = ()
    #: What Spark keeps until the job has ended.
    kept: "DataFrame | None" = None

    def rows(self) -> "DataFrame":
        """Everything in one frame, so that one Spark action and one task per source partition writes it."""
        from pyspark.sql import functions as f

        if self.together is None:
            frames = [
                self.outputs.withColumn("store", f.lit(None).cast("int")),
                changed_rows(self.changes[STATE], STATE),
            ]
        else:
            frames = [self.together, *(one.withColumn("store", f.lit(None).cast("int")) for one in self.more)]
        frames += [changed_rows(changed, SEEN) for changed in self.changes[SEEN:]]
        return united(frames)

    def release(self) -> None:
        if self.kept is not None:
            self.kept.unpersist()


def united(frames: list["DataFrame"]) -> "DataFrame":
    return functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def changed_rows(changed: "DataFrame", store: int) -> "DataFrame":
    """Changes of a store (partition, key, value) as they travel."""
    from pyspark.sql import functions as f

    zero = f.lit(0).cast("long")
    return changed.select(
        f.col("partition").alias("o_partition"),
        zero.alias("o_offset"),
        zero.alias("o_ordinal"),
        "key",
        "value",
        digest_column(with_headers=False).alias("digest"),
        f.lit(store).alias("store"),
    )


class Folding:
    """One call of a pipeline's function, over some partitions."""

    def __init__(
        self, pipeline: Pipeline, partitions: int, ranges: Sequence[OffsetRange], *, keep: bool = False
    ) -> None:
        self.pipeline = pipeline
        self.partitions = partitions
        #: What is folded.
        self.ranges = ranges
        #: Source partition → the end of its range.
        self.ends = {planned.partition: planned.end for planned in ranges}
        self.stores = stores(pipeline)
        self.within = pipeline.unique.within if pipeline.unique else None
        #: Whether Spark shall keep what is read more than once; then `Folded.release` must follow.
        self.keep = keep

    def fold(self, records: "DataFrame", loaded: list["DataFrame"]) -> Folded:
        """Args: the records of the ranges; and the state of each store at their starts."""
        with planning(self.pipeline, self.ranges):
            return self.planned(records, loaded)

    def planned(self, records: "DataFrame", loaded: list["DataFrame"]) -> Folded:
        from pyspark.sql import functions as f

        placed, frames = self.placed(records)
        changes, kept = [], None
        if self.pipeline.skips_repeats:
            marked = self.marked(placed, loaded[SEEN])
            if self.keep:
                kept = marked = marked.persist()  # four branches read it
            repeats = marked.where("repeat").select(f.lit(None).cast("binary").alias("value"), "origin")
            frames.append(travelling(repeats.withColumns({"skip": f.lit(True), "repeat": f.lit(True)})))
            changes = [self.seen(marked, loaded[SEEN])]
            placed = marked.where("not repeat").select(*RECORD)
        assert self.pipeline.fold is not None
        result = self.pipeline.fold(placed, loaded[STATE].drop("partition"))
        check_pair(result, self.pipeline, self.ranges)
        outputs, changed = result
        check_shape(outputs, self.pipeline.name)
        self.check_changed(changed)
        together = self.together(result.rows, outputs) if isinstance(result, SinglePassResult) else None
        everything = united([travelling(outputs), *frames])
        return Folded(everything, [self.changed(changed), *changes], together, tuple(frames), kept)

    def together(self, rows: "DataFrame", outputs: "DataFrame") -> "DataFrame":
        """Outputs and changed state from one pass. The partition of a key is that of its records."""
        from pyspark.sql import functions as f

        names = list(column_types(rows.sparkSession, self.stores[STATE]))
        state = f.when(f.col("state").isNotNull(), encoded([f"state.{name}" for name in names]))
        value = f.when(f.col("store").isNull(), f.col("output.value").cast("binary")).otherwise(state)
        others = [f"output.{name}" for name in outputs.columns if name not in ("key", "value", "origin")]
        return travelling(rows.select("key", value.alias("value"), *others, "origin", "store"))

    def placed(self, records: "DataFrame") -> tuple["DataFrame", list["DataFrame"]]:
        """The records that lie where their key belongs; the others stop the job, or are dead letters."""
        from pyspark.sql import functions as f

        home = home_of(self.partitions)(f.col("key")).alias("home")
        found = records.select(*RECORD, home)
        right = f.col("home") == f.col("origin.partition")
        place = f.concat(f.col("origin.partition"), f.lit(" offset "), f.col("origin.offset"))
        told = f.when(f.col("home") < 0, f.lit("has no key")).otherwise(
            f.concat(f.lit("has a key that belongs to partition "), f.col("home"))
        )
        told = f.concat(f.lit(f"{self.pipeline.source.name}/"), place, f.lit(" "), told)
        if self.pipeline.on_error == "stop":
            stopping = f.when(right, f.lit(True)).otherwise(raise_code(Code.MISPLACED_KEY, told).cast("boolean"))
            return found.where(stopping).select(*RECORD), []
        wrong = found.where(~right).select(f.lit(None).cast("binary").alias("value"), told.alias("error"), "origin")
        return found.where(right).select(*RECORD), [travelling(wrong)]

    def changed(self, frame: "DataFrame") -> "DataFrame":
        """The changed state as partition, key and value; a removed key has a null value."""
        from pyspark.sql import functions as f

        names = list(column_types(frame.sparkSession, self.stores[STATE]))
        value = encoded(names)
        if "deleted" in frame.columns:
            value = f.when(f.coalesce("deleted", f.lit(False)), f.lit(None)).otherwise(value)
        home = home_of(self.partitions)(f.col("key")).alias("home")
        rows = frame.select(f.col("key").cast("binary").alias("key"), value.alias("value")).select("*", home)
        told = f.concat(f.lit("the function changed the state of a key that belongs to partition "), f.col("home"))
        told = f.concat(
            told,
            f.lit(", and no record of that partition was given to it: "),
            f.coalesce(f.base64("key"), f.lit("null")),
        )
        here = f.col("home").isin(sorted(self.ends))
        return rows.where(
            f.when(here, f.lit(True)).otherwise(raise_code(Code.INVALID_RESULT, told).cast("boolean"))
        ).select(f.col("home").alias("partition"), "key", "value")

    def check_changed(self, frame: "DataFrame") -> None:
        """A state that is rounded or cut to fit its column would be another state, so types must be equal."""
        found = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        wanted = column_types(frame.sparkSession, self.stores[STATE])
        if found.get("key") not in ("binary", "string"):
            raise EosError(
                f"The changed state of {self.pipeline.name} has no column `key`, or one of another type.",
                "Return the key of the records along with the state's columns.",
            )
        for name, kind in found.items():
            if name not in {"key", "deleted"} | set(wanted):
                raise EosError(
                    f"The changed state of {self.pipeline.name} has a column `{name}`, which is not declared.",
                    f"Drop it, or declare it: the state is {', '.join(wanted)}.",
                )
            if kind != {"key": kind, "deleted": "boolean", **wanted}[name]:
                raise EosError(
                    f"Column `{name}` in the changed state of {self.pipeline.name} is {kind}.",
                    f"Make it {wanted.get(name, 'boolean')}, as declared.",
                )
        if missing := set(wanted) - set(found):
            raise EosError(
                f"The changed state of {self.pipeline.name} lacks the column `{missing.pop()}`.",
                "Return all declared columns: a row replaces the whole state of its key.",
            )

    def marked(self, records: "DataFrame", seen: "DataFrame") -> "DataFrame":
        """The records with `repeat`: whether their business key came in one of the offsets before, within the horizon.
        The one before counts, whether it was a repeat itself or not, so it does not matter where ranges are cut."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        rows = records.select(*RECORD, business_key(self.pipeline))
        alone = f.when(f.col("business_key").isNull(), f.col("origin.offset"))  # a record without one repeats nothing
        before = Window.partitionBy("origin.partition", "business_key", alone).orderBy("origin.offset")
        rows = rows.withColumn("last", f.lag("origin.offset").over(before))
        known = seen.select(
            f.col("partition").alias("seen_partition"), f.col("key").alias("seen_key"), f.col("offset").alias("seen")
        )
        same = (f.col("business_key") == f.col("seen_key")) & (f.col("origin.partition") == f.col("seen_partition"))
        last = f.coalesce("last", "seen")
        repeat = f.coalesce(f.col("origin.offset") - last <= f.lit(self.within), f.lit(False))
        return rows.join(known, same, "left").select(*RECORD, "business_key", repeat.alias("repeat"))

    def seen(self, marked: "DataFrame", seen: "DataFrame") -> "DataFrame":
        """The last offset of each business key, and those that no later record can repeat any more, removed."""
        from pyspark.sql import functions as f

        pairs = [f.lit(number) for pair in self.ends.items() for number in pair]
        within = f.col("offset") >= f.create_map(*pairs)[f.col("partition")] - f.lit(self.within)
        keys = marked.where("business_key is not null")
        last = keys.groupBy("origin.partition", f.col("business_key").alias("key")).agg(
            f.max("origin.offset").alias("offset")
        )
        kept = last.where(within)
        gone = seen.where(~within).join(kept, ["partition", "key"], "left_anti")
        return kept.select("partition", "key", encoded(["offset"]).alias("value")).unionByName(
            gone.select("partition", "key", f.lit(None).cast("binary").alias("value"))
        )


def home_of(partitions: int):  # type: ignore[no-untyped-def]
    """A function of a key column: the partition where Kafka's Java client would put the key, -1 for none."""
    import pandas as pd
    from pyspark.sql.pandas.functions import pandas_udf

    def home(keys: pd.Series) -> pd.Series:
        column = pa.array(keys, pa.binary())
        homes = np.full(len(column), -1, np.int32)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        homes[valid] = partitions_of(column.drop_null(), partitions)
        return pd.Series(homes)

    return pandas_udf(home, "int")  # type: ignore[call-overload]
