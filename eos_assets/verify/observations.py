"""What the judges of a proof tell: counted violations with their first examples, figures, sums and contents."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.sorted_rows import Flags

#: What judges tell: counted violations and figures (`n` of `kind`, `text` an example), sums of transactions (`kind`
#: "sum", `text` JSON), and the content of the sink (`kind` "content", `text` the topic), to be compared.
TOLD = pa.schema(
    [
        ("kind", pa.string()),
        ("text", pa.string()),
        ("sink_partition", pa.int32()),
        ("digest", pa.int64()),
        ("n", pa.int64()),
        ("sink_offset", pa.int64()),
        ("source_partition", pa.int32()),
        ("source_offset", pa.int64()),
    ]
)
TOLD_SCHEMA = (
    "kind string, text string, sink_partition int, digest long, n long, sink_offset long, "
    "source_partition int, source_offset long"
)


class Tallies:
    """Counts what was found and keeps the first examples of each kind."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = defaultdict(int)
        self.examples: dict[str, list[str]] = defaultdict(list)

    def add(self, kind: str, wrong: Flags, **columns: Any) -> None:
        """Counts the rows that are wrong; the columns say where."""
        where = np.flatnonzero(wrong)
        self.counts[kind] += len(where)
        for at in where[: SHOWN - len(self.examples[kind])].tolist():
            told = {name: c[at] if isinstance(c, list | np.ndarray) else c for name, c in columns.items()}
            self.examples[kind].append(", ".join(f"{name}={value}" for name, value in told.items()))

    def rows(self) -> Iterator[dict[str, Any]]:
        """A figure has no examples; of a violation the first example carries the count."""
        for kind, count in self.counts.items():
            if count:
                examples = self.examples[kind] or [""]
                yield {"kind": kind, "text": examples[0], "n": count}
                yield from ({"kind": kind, "text": example, "n": 0} for example in examples[1:])


def told(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), TOLD)
