"""The digest of a record, as Spark computes it. The ledger holds sums of digests modulo 2^64, see docs/contract.md."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

KEY, VALUE = "CAST(`key` AS binary)", "CAST(`value` AS binary)"


def digest_expression(key: str = KEY, *, with_headers: bool) -> str:
    """The digest of key and value, and of the headers if the pipeline writes any, as a SQL expression.

    A null differs from an empty value. Topic, partition and offset are left out, because there is one sum for each
    partition of each topic.
    """
    return f"xxhash64({key}, {key} IS NULL, {VALUE}, {VALUE} IS NULL{', `headers`' * with_headers})"


def digest_column(*, with_headers: bool) -> "Column":
    """The digest as a column."""
    from pyspark.sql import functions as f

    return f.expr(digest_expression(with_headers=with_headers))
