"""The rows that a pass over a topic returns to the driver: a kind and a JSON text."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

PASS_RESULTS = pa.schema([("kind", pa.string()), ("text", pa.string())])

#: Kind → the values of each row of it.
PassResults = defaultdict[str, list[list[Any]]]


def result_batch(rows: Iterable[tuple[str, Sequence[Any]]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"kind": kind, "text": json.dumps(values)} for kind, values in rows], PASS_RESULTS
    )


def add_results(results: PassResults, tables: Iterable[pa.RecordBatch | pa.Table]) -> None:
    """Decode what passes returned, and add it to the results of its kind."""
    for table in tables:
        for row in table.to_pylist():
            results[row["kind"]].append(json.loads(row["text"]))
