"""What the audit tables hold of each transaction, to be compared with the ledger."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.audit.marks import Reached
from eos_assets.audit.tables import AuditTables

if TYPE_CHECKING:
    from pyspark.sql import Column

FIGURES = ("next", "records_in", "records_out", "skipped", "dead")
#: Source partition and start.
TransactionId = tuple[int, int]


@dataclass(frozen=True)
class TableContents:
    """The transactions that the tables hold after those of the last comparison."""

    #: Transaction → its figures, and the number of its rows.
    transactions: dict[TransactionId, tuple[int, ...]]
    #: Partition → the last ledger offset that is loaded.
    loaded: Reached
    #: Partition → the offset before its first transaction.
    before: Reached
    #: Transaction → the number of its deliveries.
    delivered: dict[TransactionId, int]

    @functools.cached_property
    def last_delivered(self) -> Reached:
        """Partition → the start of its last transaction with deliveries."""
        last: Reached = {}
        for partition, start in self.delivered:
            last[partition] = max(last.get(partition, start), start)
        return last


def read_contents(tables: AuditTables, after: Reached) -> TableContents:
    from pyspark.sql import functions as f

    known = tables.read("audit_transactions").where(newer(after, "partition", "ledger_offset"))
    figures = [f.max(figure).alias(figure) for figure in FIGURES]
    last = f.max("ledger_offset").alias("ledger_offset")
    rows = known.groupBy("partition", "start").agg(*figures, f.count("*").alias("times"), last).collect()
    loaded, before = dict(after), dict[int, int]()
    for row in rows:
        loaded[row.partition] = max(loaded.get(row.partition, -1), row.ledger_offset)
        before[row.partition] = min(before.get(row.partition, row.start), row.start)
    before = {p: start - 1 for p, start in before.items()}
    transactions = {(row.partition, row.start): (*(row[figure] for figure in FIGURES), row.times) for row in rows}
    return TableContents(transactions, loaded, before, read_delivered(tables, before))


def read_delivered(tables: AuditTables, before: Reached) -> dict[TransactionId, int]:
    """The number of deliveries of each transaction."""
    from pyspark.sql import functions as f

    known = tables.read("audit_deliveries").where(newer(before, "source_partition", "transaction_start"))
    counts = known.groupBy("source_partition", "transaction_start").agg(f.count("*").alias("n"))
    return {(row.source_partition, row.transaction_start): row.n for row in counts.collect()}


def newer(reached: Mapping[int, int], partition: str, offset: str) -> "Column":
    """The rows after what was reached in their partition."""
    from pyspark.sql import functions as f

    condition = f.lit(True)
    for p, last in reached.items():
        condition &= (f.col(partition) != p) | (f.col(offset) > last)
    return condition
