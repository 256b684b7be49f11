"""Observations of a proof: violations with their first examples, figures, sums and contents."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.sorted_rows import Flags

#: The rows that checkers return: violations and figures (`n` of `kind`, `text` an example), sums of transactions
#: (`kind` "sum", `text` JSON), and the content of the sink (`kind` "content", `text` the topic), to be compared.
OBSERVATIONS = pa.schema(
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


@dataclass
class Observation:
    """How often something was observed, and the first examples."""

    n: int = 0
    examples: list[str] = field(default_factory=list)


#: Kind → what was observed of it; an empty observation for every other kind.
Observations = defaultdict[str, Observation]


class ObservationCollector:
    """Counts the observations of one task and keeps the first examples of each kind."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = defaultdict(int)
        self.examples: dict[str, list[str]] = defaultdict(list)

    def count(self, kind: str, n: int) -> None:
        """Add to a figure, which has no examples."""
        self.counts[kind] += n

    def add(self, kind: str, violated: Flags, **columns: Any) -> None:
        """Count the rows that violate an invariant; the columns give their place."""
        rows = np.flatnonzero(violated)
        self.counts[kind] += len(rows)
        for row in rows[: SHOWN - len(self.examples[kind])].tolist():
            place = {name: c[row] if isinstance(c, list | np.ndarray) else c for name, c in columns.items()}
            self.examples[kind].append(", ".join(f"{name}={value}" for name, value in place.items()))

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row per example. The first one carries the count, also where there is no example."""
        for kind, count in self.counts.items():
            if count:
                examples = self.examples[kind] or [""]
                yield {"kind": kind, "text": examples[0], "n": count}
                yield from ({"kind": kind, "text": example, "n": 0} for example in examples[1:])


def observation_batch(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), OBSERVATIONS)
