"""The audit tables of a pipeline: four Delta tables made from ledger, provenance and topics.

Each update appends, in one Delta commit per table, what the table does not hold yet. The commit carries the ledger's
topic id and the number of the commit that it follows: never a clock, and Delta skips the second of two writes with one
number. A new ledger has a new id, and the tables of the old one make way.

Each commit has a mark of up to where its table reaches, so the four are written at the same time, and a crash in
between loses nothing: the next update goes on with each of them.
"""

import functools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from eos_assets.audit.increment import Increment, NewRows
from eos_assets.audit.rows import DEAD_LETTERS, DELIVERIES, PARTITIONS, TRANSACTIONS
from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.reader import read_partition
from eos_assets.log import ledger
from eos_assets.log.ledger import LedgerEntry
from eos_assets.log.ranges import OffsetRange
from eos_assets.run.plan import make_plan
from eos_assets.verify import checkpoint as proven
from eos_assets.verify.frames import check_maps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

SCHEMAS = {"audit_transactions": TRANSACTIONS, "audit_deliveries": DELIVERIES, "audit_dead_letters": DEAD_LETTERS}
#: The tables that are appended to, with the columns that say up to where: of a partition, the highest value.
REACHED = {
    "audit_transactions": ("partition", "ledger_offset"),
    "audit_deliveries": ("source_partition", "transaction_start"),
    "audit_dead_letters": ("sink_partition", "sink_offset"),
}
TABLES = (*REACHED, "audit_partitions")


@dataclass(frozen=True)
class TableState:
    """One table after an update."""

    name: str
    path: str
    rows: int
    columns: dict[str, str]


@dataclass(frozen=True)
class Mark:
    """Up to where one table reaches. Each commit carries it, so the rows need not be read to go on."""

    ledger_id: str
    #: Partition → the highest value that the table has reached.
    reached: dict[int, int]
    #: None after a commit whose rows Spark has made.
    rows: int | None
    #: The number of the commit from which it was read.
    version: int = -1

    def moved(self, reached: dict[int, int], rows: int | None) -> "Mark":
        total = None if rows is None or self.rows is None else self.rows + rows
        return Mark(self.ledger_id, reached, total)

    def to_json(self) -> str:
        content = asdict(self)
        del content["version"]
        return json.dumps({"eos": content})

    @staticmethod
    def from_json(text: str | None) -> "Mark | None":
        """None for the commit of another writer."""
        try:
            content = json.loads(text or "")["eos"]
        except (ValueError, TypeError, KeyError):
            return None
        return Mark(**{**content, "reached": {int(p): value for p, value in content["reached"].items()}})


class AuditTables:
    """The tables of one pipeline, below one folder of the lake."""

    def __init__(self, pipeline: Pipeline, spark: "SparkSession", connection: Connection, lake: str) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.connection = connection
        self.names = pipeline.names()
        self.folder = f"{lake.rstrip('/')}/{pipeline.name}"

    @functools.cached_property
    def ledger_id(self) -> str:
        return self.connection.topic_ids([self.names.ledger])[self.names.ledger]

    def path(self, table: str) -> str:
        return f"{self.folder}/{table}"

    def read(self, table: str) -> "DataFrame":
        return self.spark.read.format("delta").load(self.path(table))

    def update(self, *, rebuild: bool = False) -> list[TableState]:
        """Brings every table up to what is committed. With `rebuild` nothing of the old tables remains."""
        with ThreadPoolExecutor(len(TABLES)) as pool:
            partitions = pool.submit(self.replace, "audit_partitions", NewRows(self.partitions(), {}))  # meanwhile
            marks = {} if rebuild else self.marks(pool)
            if not marks:
                self.forget()
            reached = (marks[table].reached if table in marks else {} for table in REACHED)
            new = Increment(self.pipeline, self.spark, self.connection, self.ledger_id, *reached)
            makers = (new.transactions, new.deliveries, new.dead_letters)

            def bring(table: str, make: Callable[[], NewRows | None]) -> TableState:
                rows, mark = make(), marks.get(table)
                if mark is None:
                    return self.replace(table, rows or NewRows(SCHEMAS[table].empty_table(), {}))
                return self.append(table, rows, mark) if rows else self.state(table, mark.rows)

            return [*pool.map(bring, REACHED, makers), partitions.result()]

    def replace(self, table: str, new: NewRows) -> TableState:
        mark = Mark(self.ledger_id, new.reached, count(new.rows))
        self.save(table, self.writer(new.rows, mark).mode("overwrite").option("overwriteSchema", "true"))
        return self.state(table, mark.rows)

    def append(self, table: str, new: NewRows, before: Mark) -> TableState:
        """Of two updates that begin at one commit, Delta takes the rows of one and skips those of the other."""
        mark = before.moved(new.reached, count(new.rows))
        application = f"{self.pipeline.name}/{table}/{self.ledger_id}/commits"
        writer = self.writer(new.rows, mark).mode("append")
        self.save(table, writer.options(txnAppId=application, txnVersion=str(before.version + 1)))
        return self.state(table, mark.rows)

    def writer(self, rows: "pa.Table | DataFrame", mark: Mark) -> "DataFrameWriter":
        frame = self.frame(rows) if isinstance(rows, pa.Table) else rows
        return frame.write.format("delta").option("userMetadata", mark.to_json())

    def forget(self) -> None:
        """Empties what is known by the first table: if we die before that one is new, the next update begins here."""
        for table in REACHED:
            if table != "audit_transactions" and self.columns(table):
                self.replace(table, NewRows(SCHEMAS[table].empty_table(), {}))

    def frame(self, rows: pa.Table) -> "DataFrame":
        """In one file. With its schema: Spark Connect infers none where there are no rows."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return self.spark.createDataFrame(rows, from_arrow_schema(rows.schema)).coalesce(1)

    def save(self, table: str, writer: "DataFrameWriter") -> None:
        try:
            writer.save(self.path(table))
        except Exception as failure:
            check_maps(failure, self.connection, self.names.provenance)
            raise

    def columns(self, table: str) -> list[str]:
        """None, if there is no such table."""
        from pyspark.errors import AnalysisException

        try:
            return self.read(table).columns
        except AnalysisException:
            return []

    def marks(self, pool: Executor) -> dict[str, Mark]:
        """Up to where each table reaches. Nothing, if the tables speak of a ledger that was deleted since, were made by
        an older version, or if what the others are known by is not there."""
        found = zip(REACHED, pool.map(self.columns, REACHED), strict=True)
        present = {table: columns for table, columns in found if columns}
        if "audit_transactions" not in present:
            return {}
        if any(columns != SCHEMAS[table].names for table, columns in present.items()):
            return {}
        marks = dict(zip(present, pool.map(self.mark, present), strict=True))
        return marks if all(mark.ledger_id == self.ledger_id for mark in marks.values()) else {}

    def mark(self, table: str) -> Mark:
        """Up to where a table reaches: as its last commit says or, if that was not ours, as its rows do."""
        path = self.path(table).replace("`", "``")
        (commit,) = self.spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()
        return replace(Mark.from_json(commit.userMetadata) or self.mark_of_rows(table), version=commit.version)

    def mark_of_rows(self, table: str) -> Mark:
        from pyspark.sql import functions as f

        partition, offset = REACHED[table]
        known = self.read(table)
        rows = known.groupBy(partition).agg(f.max(offset).alias("offset"), f.count("*").alias("n")).collect()
        others = table == "audit_transactions" and not known.where(known["ledger_id"] != self.ledger_id).isEmpty()
        return Mark("" if others else self.ledger_id, {row[0]: row.offset for row in rows}, sum(row.n for row in rows))

    def entries(self, part: OffsetRange) -> Iterator[tuple[int, LedgerEntry]]:
        """The entries of a part of the ledger, with their offsets."""
        for message in read_partition(self.connection, self.names.ledger, part.partition, part.start, part.end):
            entry = ledger.read(message)
            if isinstance(entry, LedgerEntry):
                yield message.offset() or 0, entry

    def state(self, table: str, rows: int | None) -> TableState:
        """Spark counts only what Spark has made."""
        frame = self.read(table)
        columns = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        return TableState(table, self.path(table), frame.count() if rows is None else rows, columns)

    def partitions(self) -> pa.Table:
        """How each source partition stands, at a glance."""
        plans = make_plan(self.pipeline, self.connection)
        source = self.pipeline.source.name
        marks = proven.load(self.connection, self.names, [(source, plan.partition) for plan in plans])
        rows = [
            {
                "partition": plan.partition,
                "log_start": plan.log_start,
                "position": plan.position,
                "last_stable": plan.stable_end,
                "lag": plan.lag,
                "proven": marks.get((source, plan.partition)),
            }
            for plan in plans
        ]
        return pa.Table.from_pylist(rows, PARTITIONS)


def count(rows: "pa.Table | DataFrame") -> int | None:
    return rows.num_rows if isinstance(rows, pa.Table) else None
