"""Applies the function of a stateful pipeline: makes what one job writes of its records and their state."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eos_assets.declare.fold_by_key import SinglePassResult
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import Code, EosError
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.kafka.partitioner import partitions_of
from eos_assets.log.digest import digest_column
from eos_assets.state.changelog import SEEN, STATE, column_types, encode, stores
from eos_assets.transform.business_key import business_key
from eos_assets.transform.result_schema import check_schema, worker_rows
from eos_assets.transform.spark_errors import raise_code
from eos_assets.transform.user_code import check_pair, planning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD = ["key", "value", "headers", "timestamp", "origin"]


@dataclass(frozen=True)
class Folded:
    """What a fold returned, as rows for the writer, and as changes of each store (partition, key and value)."""

    outputs: "DataFrame"
    changes: list["DataFrame"]
    #: Outputs and changes of the state in one frame, where the function made them in one pass.
    single_pass: "DataFrame | None" = None
    #: The engine's own rows: dead letters and repeats. They are among the outputs.
    engine_rows: tuple["DataFrame", ...] = ()
    #: What Spark keeps until the job has ended.
    persisted: "DataFrame | None" = None

    def rows(self) -> "DataFrame":
        """Everything in one frame, so that one Spark action and one task per source partition writes it."""
        from pyspark.sql import functions as f

        no_store = f.lit(None).cast("int")
        if self.single_pass is None:
            frames = [self.outputs.withColumn("store", no_store), change_rows(self.changes[STATE], STATE)]
        else:
            frames = [self.single_pass, *(rows.withColumn("store", no_store) for rows in self.engine_rows)]
        frames += [change_rows(changes, SEEN) for changes in self.changes[SEEN:]]
        return unite(frames)

    def release(self) -> None:
        if self.persisted is not None:
            self.persisted.unpersist()


def unite(frames: list["DataFrame"]) -> "DataFrame":
    return functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def change_rows(changes: "DataFrame", store: int) -> "DataFrame":
    """Changes of a store (partition, key, value) as rows for the writer."""
    from pyspark.sql import functions as f

    zero = f.lit(0).cast("long")
    return changes.select(
        f.col("partition").alias("o_partition"),
        zero.alias("o_offset"),
        zero.alias("o_ordinal"),
        "key",
        "value",
        digest_column(with_headers=False).alias("digest"),
        f.lit(store).alias("store"),
    )


class Folding:
    """One call of a pipeline's function, over ranges of some partitions."""

    def __init__(
        self, pipeline: Pipeline, partitions: int, ranges: Sequence[OffsetRange], *, persist: bool = False
    ) -> None:
        self.pipeline = pipeline
        #: The number of partitions of the source.
        self.partitions = partitions
        self.ranges = ranges
        #: Source partition → the end of its range.
        self.ends = {planned.partition: planned.end for planned in ranges}
        self.stores = stores(pipeline)
        self.within = pipeline.unique.within if pipeline.unique else None
        #: Whether Spark keeps what is read more than once, until `Folded.release`.
        self.persist = persist

    def fold(self, records: "DataFrame", loaded: list["DataFrame"]) -> Folded:
        """Apply the function.

        Args:
            records: the records of the ranges.
            loaded: the state of each store at the starts of the ranges.
        """
        with planning(self.pipeline, self.ranges):
            return self._plan(records, loaded)

    def _plan(self, records: "DataFrame", loaded: list["DataFrame"]) -> Folded:
        records, engine_rows = self._separate_misplaced(records)
        seen_changes, persisted = [], None
        if self.pipeline.skips_repeats:
            marked = self._mark_repeats(records, loaded[SEEN])
            if self.persist:
                persisted = marked = marked.persist()  # four branches read it
            engine_rows.append(skipped_repeats(marked))
            seen_changes = [self._seen_changes(marked, loaded[SEEN])]
            records = marked.where("not repeat").select(*RECORD)
        assert self.pipeline.fold is not None
        result = self.pipeline.fold(records, loaded[STATE].drop("partition"))
        check_pair(result, self.pipeline, self.ranges)
        outputs, changed = result
        check_schema(outputs, self.pipeline.name)
        self._check_changed(changed)
        return Folded(
            outputs=unite([worker_rows(outputs), *engine_rows]),
            changes=[self._state_changes(changed), *seen_changes],
            single_pass=self._single_pass(result.rows, outputs) if isinstance(result, SinglePassResult) else None,
            engine_rows=tuple(engine_rows),
            persisted=persisted,
        )

    def _separate_misplaced(self, records: "DataFrame") -> tuple["DataFrame", list["DataFrame"]]:
        """The records that are in the partition of their key. The others stop the job, or are dead letters."""
        from pyspark.sql import functions as f

        placed = records.select(*RECORD, home_partition(self.partitions)(f.col("key")).alias("home"))
        at_home = f.col("home") == f.col("origin.partition")
        place = f.concat(f.col("origin.partition"), f.lit(" offset "), f.col("origin.offset"))
        problem = f.when(f.col("home") < 0, f.lit("has no key")).otherwise(
            f.concat(f.lit("has a key that belongs to partition "), f.col("home"))
        )
        message = f.concat(f.lit(f"{self.pipeline.source.name}/"), place, f.lit(" "), problem)
        if self.pipeline.on_error == "stop":
            stopping = f.when(at_home, f.lit(True)).otherwise(raise_code(Code.MISPLACED_KEY, message).cast("boolean"))
            return placed.where(stopping).select(*RECORD), []
        misplaced = placed.where(~at_home).select(
            f.lit(None).cast("binary").alias("value"), message.alias("error"), "origin"
        )
        return placed.where(at_home).select(*RECORD), [worker_rows(misplaced)]

    def _mark_repeats(self, records: "DataFrame", seen: "DataFrame") -> "DataFrame":
        """The records with `repeat`: whether one of the offsets before, within the horizon, has the same business key.
        That record counts whether it is a repeat itself or not, so it does not matter where ranges are cut."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        rows = records.select(*RECORD, business_key(self.pipeline))
        alone = f.when(f.col("business_key").isNull(), f.col("origin.offset"))  # a record without a key repeats none
        before = Window.partitionBy("origin.partition", "business_key", alone).orderBy("origin.offset")
        rows = rows.withColumn("last", f.lag("origin.offset").over(before))
        known = seen.select(
            f.col("partition").alias("seen_partition"), f.col("key").alias("seen_key"), f.col("offset").alias("seen")
        )
        same = (f.col("business_key") == f.col("seen_key")) & (f.col("origin.partition") == f.col("seen_partition"))
        last = f.coalesce("last", "seen")
        repeat = f.coalesce(f.col("origin.offset") - last <= f.lit(self.within), f.lit(False))
        return rows.join(known, same, "left").select(*RECORD, "business_key", repeat.alias("repeat"))

    def _seen_changes(self, marked: "DataFrame", seen: "DataFrame") -> "DataFrame":
        """The last offset of each business key; a key that no later record can repeat is deleted."""
        from pyspark.sql import functions as f

        pairs = [f.lit(number) for pair in self.ends.items() for number in pair]
        within = f.col("offset") >= f.create_map(*pairs)[f.col("partition")] - f.lit(self.within)
        keys = marked.where("business_key is not null")
        last = keys.groupBy("origin.partition", f.col("business_key").alias("key")).agg(
            f.max("origin.offset").alias("offset")
        )
        kept = last.where(within)
        expired = seen.where(~within).join(kept, ["partition", "key"], "left_anti")
        return kept.select("partition", "key", encode(["offset"]).alias("value")).unionByName(
            expired.select("partition", "key", f.lit(None).cast("binary").alias("value"))
        )

    def _check_changed(self, frame: "DataFrame") -> None:
        """Refuse types that differ from the declared ones: a state that is rounded or cut would be another state."""
        types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        declared = column_types(frame.sparkSession, self.stores[STATE])
        name = self.pipeline.name
        if types.get("key") not in ("binary", "string"):
            raise EosError(
                f"Pipeline {name}: column `key` of the changed state is {types.get('key', 'missing')}.",
                "Return the key of the records, which is binary, along with the state's columns.",
            )
        for column, kind in types.items():
            if column not in {"key", "deleted"} | set(declared):
                raise EosError(
                    f"Pipeline {name}: the changed state has a column `{column}`, which is not declared.",
                    f"Drop it, or declare it: the state is {', '.join(declared)}.",
                )
            if kind != {"key": kind, "deleted": "boolean", **declared}[column]:
                raise EosError(
                    f"Pipeline {name}: column `{column}` of the changed state is {kind}.",
                    f"Make it {declared.get(column, 'boolean')}, as declared.",
                )
        if missing := set(declared) - set(types):
            raise EosError(
                f"Pipeline {name}: the changed state lacks the column `{missing.pop()}`.",
                "Return all declared columns: a row replaces the whole state of its key.",
            )

    def _state_changes(self, changed: "DataFrame") -> "DataFrame":
        """The changed state as partition, key and value; a deleted key has a null value."""
        from pyspark.sql import functions as f

        value = encode(list(column_types(changed.sparkSession, self.stores[STATE])))
        if "deleted" in changed.columns:
            value = f.when(f.coalesce("deleted", f.lit(False)), f.lit(None)).otherwise(value)
        home = home_partition(self.partitions)(f.col("key")).alias("home")
        rows = changed.select(f.col("key").cast("binary").alias("key"), value.alias("value")).select("*", home)
        message = f.concat(
            f.lit("the function changed the state of a key that belongs to partition "),
            f.col("home"),
            f.lit(", and no record of that partition was given to it: "),
            f.coalesce(f.base64("key"), f.lit("null")),
        )
        in_ranges = f.col("home").isin(sorted(self.ends))
        checked = f.when(in_ranges, f.lit(True)).otherwise(raise_code(Code.INVALID_RESULT, message).cast("boolean"))
        return rows.where(checked).select(f.col("home").alias("partition"), "key", "value")

    def _single_pass(self, rows: "DataFrame", outputs: "DataFrame") -> "DataFrame":
        """Outputs and changed state from one pass. A key is in the partition of its records."""
        from pyspark.sql import functions as f

        names = list(column_types(rows.sparkSession, self.stores[STATE]))
        state = f.when(f.col("state").isNotNull(), encode([f"state.{name}" for name in names]))
        value = f.when(f.col("store").isNull(), f.col("output.value").cast("binary")).otherwise(state)
        others = [f"output.{name}" for name in outputs.columns if name not in ("key", "value", "origin")]
        return worker_rows(rows.select("key", value.alias("value"), *others, "origin", "store"))


def skipped_repeats(marked: "DataFrame") -> "DataFrame":
    """The repeats as rows for the writer, which skips and counts them."""
    from pyspark.sql import functions as f

    repeats = marked.where("repeat").select(f.lit(None).cast("binary").alias("value"), "origin")
    return worker_rows(repeats.withColumns({"skip": f.lit(True), "repeat": f.lit(True)}))


def home_partition(partitions: int):  # type: ignore[no-untyped-def]
    """A function of a key column: the partition where Kafka's Java client would put the key; -1 for a null key."""
    import pandas as pd
    from pyspark.sql.pandas.functions import pandas_udf

    def home(keys: pd.Series) -> pd.Series:
        column = pa.array(keys, pa.binary())
        homes = np.full(len(column), -1, np.int32)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        homes[valid] = partitions_of(column.drop_null(), partitions)
        return pd.Series(homes)

    return pandas_udf(home, "int")  # type: ignore[call-overload]
