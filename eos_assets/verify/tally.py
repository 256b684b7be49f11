"""What all judges told in, one sum with its first examples for each kind out."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.verify.invariants import SHOWN
from eos_assets.worker_path import leave_archives

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TALLY = pa.schema([("kind", pa.string()), ("n", pa.int64()), ("examples", pa.list_(pa.string()))])
TALLY_SCHEMA = "kind string, n long, examples array<string>"


@dataclass
class Tally:
    """How often something was found, and the first examples."""

    n: int = 0
    examples: list[str] = field(default_factory=list)


def tallies(told: "DataFrame", *, by_origin: bool) -> dict[str, Tally]:
    """What all judges told in, one tally for each kind out. What cancels out is equal: by place first, then by content;
    what remains only there lies in a wrong place.

    Args:
        told: rows of `TOLD_SCHEMA`.
        by_origin: maps are atomic with the output: the origin that they claim must be the one that gives the content.
    """
    from pyspark.sql import functions as f

    same = ["kind", "text", "digest", *(["source_partition", "source_offset"] if by_origin else [])]
    by_place = (
        told.groupBy(*same, "sink_partition")
        .agg(
            f.sum("n").alias("n"),
            f.min("sink_offset").alias("sink_offset"),
            f.min(f.struct("source_partition", "source_offset")).alias("source"),
        )
        .where("kind != 'content' or n != 0")
    )
    by_content = by_place.groupBy(*same).agg(
        f.sum(f.greatest("n", f.lit(0))).alias("lost"),
        f.sum(f.greatest(-f.col("n"), f.lit(0))).alias("more"),
        f.min(f.when(f.col("n") < 0, f.struct("sink_partition", "sink_offset"))).alias("sink"),
        f.min(f.when(f.col("n") > 0, f.col("source"))).alias("source"),
    )
    rows = by_content.select("kind", "text", "lost", "more", "sink", "source").mapInArrow(tally, TALLY_SCHEMA)
    found: dict[str, Tally] = defaultdict(Tally)
    for row in rows.collect():
        found[row.kind].n += row.n
        found[row.kind].examples += row.examples
    return found


def tally(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What judges told in; sums and the first examples of each kind out. So violations without end take no memory."""
    leave_archives()
    for batch in batches:
        for kind in pc.unique(batch["kind"]).to_pylist():
            rows = batch.filter(pc.equal(batch["kind"], kind))
            if kind == "content":
                yield from differences(rows)
            else:
                examples = [text for text in rows["text"].to_pylist() if text]
                whole = kind in ("sum", "dropped")
                yield tallied(kind, pc.sum(rows["lost"]).as_py(), examples if whole else examples[:SHOWN])


def differences(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Content that did not cancel out: what is there as often elsewhere was moved, the rest is lost or too many."""
    moved = pc.min_element_wise(rows["lost"], rows["more"])
    kinds = {
        "lost": (pc.subtract(rows["lost"], moved), "source record {source_partition}/{source_offset} → {text}"),
        "too many": (pc.subtract(rows["more"], moved), "{text}/{sink_partition}/{sink_offset}"),
        "moved": (moved, "{text}/{sink_partition}/{sink_offset} of source record {source_partition}/{source_offset}"),
    }
    for kind, (n, example) in kinds.items():
        wrong = rows.filter(pc.greater(n, 0)).slice(0, SHOWN).to_pylist()
        if wrong:
            yield tallied(kind, pc.sum(n).as_py(), [f"{kind}: {example.format(**flat(row))}" for row in wrong])


def flat(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, **(row["sink"] or {}), **(row["source"] or {})}


def tallied(kind: str, n: int, examples: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"kind": kind, "n": n, "examples": examples}], TALLY)
