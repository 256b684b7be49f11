"""Add up what all checkers observed: one count with its first examples for each kind."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.observations import Observation, Observations
from eos_assets.worker import prepare_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUMMARY = pa.schema([("kind", pa.string()), ("n", pa.int64()), ("examples", pa.list_(pa.string()))])


def summarize(observed: "DataFrame", *, by_origin: bool) -> Observations:
    """Add up the observations of all tasks.

    Equal contents cancel out, by place first and then by content alone: what remains only by place is in a wrong place.

    Args:
        observed: rows of `OBSERVATIONS`.
        by_origin: maps are atomic with the output: the origin that they claim must be the one that gives the content.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    same = ["kind", "text", "digest", *(["source_partition", "source_offset"] if by_origin else [])]
    by_place = (
        observed.groupBy(*same, "sink_partition")
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
    columns = by_content.select("kind", "text", "lost", "more", "sink", "source")
    observations = Observations(Observation)
    for row in columns.mapInArrow(summarize_batches, from_arrow_schema(SUMMARY)).collect():
        observations[row.kind].n += row.n
        observations[row.kind].examples += row.examples
    return observations


def summarize_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The sum and the first examples of each kind, batch by batch, so that memory does not grow with the violations."""
    prepare_worker()
    for batch in batches:
        for kind in pc.unique(batch["kind"]).to_pylist():
            rows = batch.filter(pc.equal(batch["kind"], kind))
            if kind == "content":
                yield from differences(rows)
            else:
                examples = [text for text in rows["text"].to_pylist() if text]
                whole = kind in ("sum", "dropped")
                yield summary_batch(kind, pc.sum(rows["lost"]).as_py(), examples if whole else examples[:SHOWN])


def differences(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Classify content that did not cancel out: moved if it is in another place as often, else lost or too many."""
    moved = pc.min_element_wise(rows["lost"], rows["more"])
    kinds = {
        "lost": (pc.subtract(rows["lost"], moved), "source record {source_partition}/{source_offset} → {text}"),
        "too many": (pc.subtract(rows["more"], moved), "{text}/{sink_partition}/{sink_offset}"),
        "moved": (moved, "{text}/{sink_partition}/{sink_offset} of source record {source_partition}/{source_offset}"),
    }
    for kind, (n, example) in kinds.items():
        violations = rows.filter(pc.greater(n, 0)).slice(0, SHOWN).to_pylist()
        if violations:
            examples = [f"{kind}: {example.format(**flatten(row))}" for row in violations]
            yield summary_batch(kind, pc.sum(n).as_py(), examples)


def flatten(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, **(row["sink"] or {}), **(row["source"] or {})}


def summary_batch(kind: str, n: int, examples: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"kind": kind, "n": n, "examples": examples}], SUMMARY)
