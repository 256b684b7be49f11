"""The audit tables of a pipeline: four Delta tables made from ledger, maps and topics.

Each update appends, in one Delta commit per table, what the table lacks. The commit carries the ledger's topic id and
the number of the commit that it follows, never a clock: Delta skips the second of two writes with one number. A new
ledger has a new id, and replaces the tables of the old one.

Each commit has a mark of how far its table reaches. So the tables are written at the same time, and a crash in between
loses nothing: the next update continues each of them.
"""

import functools
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from eos_assets.audit.increment import Increment, NewRows
from eos_assets.audit.marks import Mark, TablesReached
from eos_assets.audit.schemas import DEAD_LETTERS, DELIVERIES, PARTITIONS, TRANSACTIONS
from eos_assets.context import PipelineContext
from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.run.plan import make_plan
from eos_assets.verify import checkpoint
from eos_assets.verify.provenance_frame import raise_foreign_map

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

SCHEMAS = {"audit_transactions": TRANSACTIONS, "audit_deliveries": DELIVERIES, "audit_dead_letters": DEAD_LETTERS}
#: The tables that are appended to, and the two columns of their marks: a partition, and its highest value.
MARK_COLUMNS = {
    "audit_transactions": ("partition", "ledger_offset"),
    "audit_deliveries": ("source_partition", "transaction_start"),
    "audit_dead_letters": ("sink_partition", "sink_offset"),
}
TABLES = (*MARK_COLUMNS, "audit_partitions")


@dataclass(frozen=True)
class TableState:
    """One table after an update."""

    name: str
    path: str
    rows: int


class AuditTables:
    """The tables of one pipeline, below one folder of the lake."""

    def __init__(self, pipeline: Pipeline, spark: "SparkSession", connection: Connection, lake: str) -> None:
        self.context = PipelineContext(pipeline, spark, connection)
        self.folder = f"{lake.rstrip('/')}/{pipeline.name}"

    @functools.cached_property
    def ledger_id(self) -> str:
        """The id of the ledger topic. A new ledger has another one."""
        ledger = self.context.names.ledger
        return self.context.kafka.topic_ids([ledger])[ledger]

    def path(self, table: str) -> str:
        return f"{self.folder}/{table}"

    def read(self, table: str) -> "DataFrame":
        return self.context.spark.read.format("delta").load(self.path(table))

    def columns(self, table: str) -> list[str]:
        """The columns of a table; none if it does not exist."""
        from pyspark.errors import AnalysisException

        try:
            return self.read(table).columns
        except AnalysisException:
            return []

    def update(self, *, rebuild: bool = False) -> list[TableState]:
        """Add to every table what is committed. With `rebuild` nothing of the old tables remains."""
        with ThreadPoolExecutor(len(TABLES)) as pool:
            partitions = pool.submit(self.replace, "audit_partitions", NewRows(self.partition_rows(), {}))  # meanwhile
            marks = {} if rebuild else self.marks(pool)
            if not marks:
                self.empty_dependents()
            reached = TablesReached(*(marks[table].reached if table in marks else {} for table in MARK_COLUMNS))
            new = Increment.read(self.context, self.ledger_id, reached)

            def write(table: str, make_rows: Callable[[], NewRows | None]) -> TableState:
                rows, mark = make_rows(), marks.get(table)
                if mark is None:
                    return self.replace(table, rows or NewRows(SCHEMAS[table].empty_table(), {}))
                return self.append(table, rows, mark) if rows else self.state(table, mark.rows)

            return [
                *pool.map(write, MARK_COLUMNS, (new.transactions, new.deliveries, new.dead_letters)),
                partitions.result(),
            ]

    def replace(self, table: str, new: NewRows) -> TableState:
        mark = Mark(self.ledger_id, new.reached, row_count(new.rows))
        self.save(table, self.writer(new.rows, mark).mode("overwrite").option("overwriteSchema", "true"))
        return self.state(table, mark.rows)

    def append(self, table: str, new: NewRows, before: Mark) -> TableState:
        """Append rows. If two updates begin at one commit, Delta takes the rows of one and skips those of the other."""
        mark = before.advance(new.reached, row_count(new.rows))
        application = f"{self.context.pipeline.name}/{table}/{self.ledger_id}/commits"
        writer = self.writer(new.rows, mark).mode("append")
        self.save(table, writer.options(txnAppId=application, txnVersion=str(before.version + 1)))
        return self.state(table, mark.rows)

    def writer(self, rows: "pa.Table | DataFrame", mark: Mark) -> "DataFrameWriter":
        frame = self.frame(rows) if isinstance(rows, pa.Table) else rows
        return frame.write.format("delta").option("userMetadata", mark.to_json())

    def empty_dependents(self) -> None:
        """Empty the tables that depend on audit_transactions. If this process dies before that one is replaced, the
        next update begins here again."""
        for table in MARK_COLUMNS:
            if table != "audit_transactions" and self.columns(table):
                self.replace(table, NewRows(SCHEMAS[table].empty_table(), {}))

    def frame(self, rows: pa.Table) -> "DataFrame":
        """The rows that the driver made, for one file. The schema is given: Spark Connect infers none from no rows."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return self.context.spark.createDataFrame(rows, from_arrow_schema(rows.schema)).coalesce(1)

    def save(self, table: str, writer: "DataFrameWriter") -> None:
        try:
            writer.save(self.path(table))
        except Exception as failure:
            raise_foreign_map(failure, self.context.kafka, self.context.names.provenance)
            raise

    def marks(self, pool: Executor) -> dict[str, Mark]:
        """How far each table reaches. Empty, so that all are rebuilt, if they belong to another ledger, have other
        columns, or if audit_transactions is missing."""
        columns = dict(zip(MARK_COLUMNS, pool.map(self.columns, MARK_COLUMNS), strict=True))
        present = {table: names for table, names in columns.items() if names}
        if "audit_transactions" not in present:
            return {}
        if any(names != SCHEMAS[table].names for table, names in present.items()):
            return {}
        marks = dict(zip(present, pool.map(self.mark, present), strict=True))
        return marks if all(mark.ledger_id == self.ledger_id for mark in marks.values()) else {}

    def mark(self, table: str) -> Mark:
        """How far a table reaches: by its last commit or, if another writer made that one, by its rows."""
        path = self.path(table).replace("`", "``")
        (commit,) = self.context.spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()
        return replace(Mark.from_json(commit.userMetadata) or self.mark_of_rows(table), version=commit.version)

    def mark_of_rows(self, table: str) -> Mark:
        from pyspark.sql import functions as f

        partition, offset = MARK_COLUMNS[table]
        frame = self.read(table)
        rows = frame.groupBy(partition).agg(f.max(offset).alias("offset"), f.count("*").alias("n")).collect()
        foreign = table == "audit_transactions" and not frame.where(frame["ledger_id"] != self.ledger_id).isEmpty()
        return Mark("" if foreign else self.ledger_id, {row[0]: row.offset for row in rows}, sum(row.n for row in rows))

    def state(self, table: str, rows: int | None) -> TableState:
        """A table after its update. Spark counts only the rows that it has made."""
        return TableState(table, self.path(table), self.read(table).count() if rows is None else rows)

    def partition_rows(self) -> pa.Table:
        """One row per source partition: its position, its lag, and how far it is proven."""
        plans = make_plan(self.context.pipeline, self.context.kafka)
        source = self.context.pipeline.source.name
        proven = checkpoint.load(self.context.kafka, self.context.names, [(source, plan.partition) for plan in plans])
        rows = [
            {
                "partition": plan.partition,
                "log_start": plan.log_start,
                "position": plan.position,
                "last_stable": plan.stable_end,
                "lag": plan.lag,
                "proven": proven.get((source, plan.partition)),
            }
            for plan in plans
        ]
        return pa.Table.from_pylist(rows, PARTITIONS)


def row_count(rows: "pa.Table | DataFrame") -> int | None:
    return rows.num_rows if isinstance(rows, pa.Table) else None
