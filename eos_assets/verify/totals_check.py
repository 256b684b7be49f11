"""A proof by totals: sinks, maps and source are each read once, in order, and nothing is sorted, shuffled or joined.

Every total that must be equal is compared. If one differs, or something is found that totals cannot decide, the answer
is None: then every row is compared (`tables`, `sink_judge`, `source_judge`), which shows what is wrong and where.
"""

import contextlib
import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from eos_assets.errors import Code
from eos_assets.kafka.headers import UnreadableHeadersError
from eos_assets.log.ranges import OffsetRange
from eos_assets.run.partition_alignment import narrow_path
from eos_assets.sink.router import choose_partitions as partitions
from eos_assets.transform.arrow_batches import LARGE_BYTES, batches
from eos_assets.transform.business_key import repeated_keys
from eos_assets.transform.result_schema import fail_if_large, apply_transform, worker_rows
from eos_assets.transform.source import read_records
from eos_assets.transform.spark_errors import classify
from eos_assets.verify.context import Case
from eos_assets.verify.frames import Tables, unioned, without
from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.map_reader import MapClaims, MapReader, NotClean
from eos_assets.verify.record_reader import read_records
from eos_assets.verify.sink_pass import PASS_SCHEMA, SinkPass, content_total
from eos_assets.verify.sorted_rows import integers
from eos_assets.verify.tally import Tally
from eos_assets.verify.totals import Total, hash_rows, of_aggregates, sql_aggregates, total
from eos_assets.worker_path import drop_archives

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

ORIGIN = ("`o_offset`", "`o_partition`")
#: What is observed of some rows: how many, and the two halves of the sum of their hashes.
FIGURES = ("n", "low", "high")
#: They are there some milliseconds after the job.
OBSERVED_SECONDS = 10.0
#: Up to so many offsets the driver reads the sinks by itself.
FEW_RECORDS = 10_000
Found = dict[str, list[list[Any]]]


class ByTotals:
    """One proof of one window, in exactly-once mode and of committed records."""

    def __init__(self, tables: Tables, case: Case) -> None:
        self.tables = tables
        self.case = case
        self.pipeline = tables.pipeline
        #: What Spark counts on its way, by kind.
        self.observations: dict[str, Observation] = {}

    def tallies(self) -> dict[str, Tally] | None:
        """What was counted, or None if every row has to be compared."""
        try:
            claims = MapReader(
                self.tables.connection,
                self.tables.names.provenance,
                self.tables.window,
                self.case,
                isolates=self.pipeline.on_error == "isolate" and self.tables.proof is None,
            ).read()
            return self.compare(claims, self.collect_swiftly(claims))
        except NotClean:
            return None

    def collect_swiftly(self, claims: MapClaims) -> Found:
        """In batches whose size in bytes Spark does not check, unless outputs are large."""
        entries = (entry for w in self.tables.window.partitions.values() for entry in w.entries)
        if not any(entry.bytes_out > LARGE_BYTES * max(1, entry.records_out) for entry in entries):
            try:
                with batches(self.tables.spark, swift=True):
                    return self.collect(claims)
            except Exception as failure:
                if classify(failure).code is not Code.BATCH_TOO_LARGE:
                    raise
        with batches(self.tables.spark, swift=False):
            return self.collect(claims)

    def collect(self, claims: MapClaims) -> Found:
        """All passes, in one Spark job, but for sinks with few new records."""
        self.observations.clear()  # of an attempt in swift batches that failed
        found: Found = defaultdict(list)
        ranges = {number: self.tables.window.ranges(topic) for number, topic in enumerate(self.case.topics)}
        frames = self.source_frames(claims)
        if not self.read_here(found, claims, ranges):
            sinks = [number for number, chosen in ranges.items() if any(r.size for r in chosen)]
            frames = [*(self.along(number, claims) for number in sinks), *frames]  # the longest tasks first
        if frames:
            take(found, [unioned(frames).toArrow()])
        for kind, observation in self.observations.items():
            found[kind].append(observed_figures(observation))
        return found

    def read_here(self, found: Found, claims: MapClaims, ranges: dict[int, list[OffsetRange]]) -> bool:
        """The pass along the sinks, without Spark where they have few new records: a task would take longer."""
        if sum(r.size for chosen in ranges.values() for r in chosen) > FEW_RECORDS:
            return False
        with contextlib.suppress(UnreadableHeadersError):  # Spark can read those
            rows = read_records(self.tables.connection, self.case.topics, ranges)
            take(found, SinkPass(self.case, claims.parts).run(rows))
            return True
        return False

    def along(self, number: int, claims: MapClaims) -> "DataFrame":
        """One pass along a sink, or the dead letters."""
        case, parts = self.case, {place: parts for place, parts in claims.parts.items() if place[0] == number}
        columns = ("topic", "sink_partition", "sink_offset", f"{fail_if_large('`key`')} AS key", "digest")
        rows = self.tables.sink_records(number, "read_committed").selectExpr(*columns)
        return rows.mapInArrow(lambda rows: SinkPass(case, parts).run(rows), PASS_SCHEMA)

    def source_frames(self, claims: MapClaims) -> list["DataFrame"]:
        """What the source gives: its visible records, the outputs of the transform run again, repeated keys."""
        tables, pipeline = self.tables, self.pipeline
        frames: list[DataFrame] = []
        if pipeline.deterministic and tables.repeatable:
            frames.append(self.again(claims))
        elif pipeline.drops and tables.retained:
            raise NotClean("what a transform drops is not known without running it again")
        if tables.retained and "visible" not in self.observations:
            frames.append(self.visible())
        if tables.retained and pipeline.unique:
            frames.append(counted("repeated", repeated_keys(tables.source(), pipeline)))
        if tables.proof and tables.retained and pipeline.on_error == "stop":
            frames.append(counted("misplaced", tables.misplaced()))
        return frames

    def visible(self) -> "DataFrame":
        source = self.tables.source().selectExpr("`partition` AS o_partition", "`offset` AS o_offset")
        if self.pipeline.drops:
            case = self.case
            return source.mapInArrow(lambda rows: visible_by_transaction(case, rows), PASS_SCHEMA)
        return self.observed(source, "visible", ORIGIN)

    def again(self, claims: MapClaims) -> "DataFrame":
        """The transform's outputs, run again with ranges cut at other places than the run's. On the way the source
        records are counted, where that sees each of them once."""
        tables = self.tables
        cuts = {"minPartitions": str(2 * len(tables.repeatable))}
        if tables.proof is not None:
            return self.content(tables.rerun(**cuts))
        source = read_records(tables.spark, tables.connection, self.pipeline.source.name, tables.repeatable, **cuts)
        if not self.pipeline.drops and tables.repeatable == tables.retained:
            source = self.observe(source, "visible", ("`origin`.`offset`", "`origin`.`partition`"))
        if claims.set_aside:
            aside = tables.spark.createDataFrame(claims.set_aside, "source_partition int, source_offset long")
            source = without(aside, source)
        frame = self.content(worker_rows(apply_transform(self.pipeline, source)))
        if narrow_path(frame, self.pipeline) is None:
            if claims.set_aside:
                raise NotClean("a shuffle beside records that were set aside")
            self.observations.clear()
            return self.content(tables.rerun(**cuts))
        return frame

    def content(self, rows: "DataFrame") -> "DataFrame":
        """Outputs by content, origin and topic, and dead letters by origin, added up; all rows by origin where some
        records may give none."""
        columns, letters = set(rows.columns), len(self.case.counts)
        topic, digest, compared = "0", "`digest`", ["true"]
        if "topic" in columns:
            numbers = " ".join(f"WHEN '{name}' THEN {n}" for n, name in enumerate(self.case.topics[:-1]))
            topic = f"CASE coalesce(`topic`, '{self.case.topics[0]}') {numbers} ELSE -1 END"
        if "skip" in columns:
            compared.append("NOT coalesce(`skip`, false)")
        if "error" in columns and not self.case.compares_letters:
            compared.append("`error` IS NULL")
        elif "error" in columns:
            topic = f"CASE WHEN `error` IS NOT NULL THEN {letters} ELSE {topic} END"
            digest = "CASE WHEN `error` IS NOT NULL THEN 0L ELSE `digest` END"
        flat = rows.selectExpr(
            f"{digest} AS digest",
            *ORIGIN,
            f"{topic} AS topic",
            f"{' AND '.join(compared)} AS compared",
            *(["key", "partition"] if self.case.declares_partitions else []),
        )
        if self.case.declares_partitions:
            case = self.case
            return flat.mapInArrow(lambda rows: content_by_place(case, rows), PASS_SCHEMA)
        if self.pipeline.drops:
            flat = self.observe(flat, "kept", ORIGIN)
        return self.observed(flat.where("compared"), "again", ("`digest`", *ORIGIN, "`topic`"))

    def observe(self, rows: "DataFrame", kind: str, columns: Sequence[str]) -> "DataFrame":
        """The same rows; when they have been read, their total is known."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        observation = self.observations[kind] = Observation()
        aggregates = zip(FIGURES, ("count(*)", *sql_aggregates(columns)), strict=True)
        return rows.observe(observation, *(f.expr(aggregate).alias(name) for name, aggregate in aggregates))

    def observed(self, rows: "DataFrame", kind: str, columns: Sequence[str]) -> "DataFrame":
        """No rows: these are only read for their total. So no task has to wait for the others to add it up."""
        nothing = self.observe(rows, kind, columns).where("o_offset < 0")
        return nothing.selectExpr("CAST(NULL AS string) AS kind", "CAST(NULL AS string) AS text")

    def compare(self, claims: MapClaims, found: Found) -> dict[str, Tally]:
        wrong = next((row[0] for row in found["sink"] if row[0]), "")
        named = sum(row[2] for row in found["sink"])
        if wrong or named != claims.named:
            raise NotClean(wrong or "rows of the maps without a visible record")
        if any(n for n, *_ in found["misplaced"]):
            raise NotClean("source records in another partition than that of their key")
        again = add(of_aggregates(*row) for row in found["again"])
        if self.pipeline.deterministic and again != add(Total(*row[3:5]) for row in found["sink"]):
            raise NotClean("the transform, run again, gives other outputs")
        visible = add(of_aggregates(*row) for row in found["visible"])
        tallies: dict[str, Tally] = defaultdict(Tally)
        if self.pipeline.drops:
            tallies["dropped"].examples = self.dropped(claims, found)
        elif visible != claims.origins:
            raise NotClean("the maps name other source records than the visible ones")
        tallies["source_records"].n = visible.n
        tallies["sink_records"].n = sum(row[1] for row in found["sink"])
        tallies["outputs_with_origin"].n = named
        tallies["newer"].n = claims.newer
        tallies["sum"].examples = [json.dumps(row) for row in found["sum"]]
        tallies["source_is_unique"] = self.repeated(sum(n for n, *_ in found["repeated"]))
        return tallies

    def dropped(self, claims: MapClaims, found: Found) -> list[str]:
        """The records of each transaction that the transform drops: the maps must name all others."""
        if any(w.repeatable.start > w.source.start for w in self.tables.window.partitions.values()):
            raise NotClean("what other code dropped is not known")
        if add(of_aggregates(*row) for row in found["kept"]) != claims.rows or claims.set_aside:
            raise NotClean("the maps name other source records than the transform keeps")
        counts: dict[tuple[int, int], int] = defaultdict(int)
        for partition, start, n in found["transaction"]:
            counts[partition, start] += n
        kept = claims.per_transaction
        return [json.dumps([*place, n - kept.get(place, 0)]) for place, n in counts.items()]

    def repeated(self, n: int) -> Tally:
        if not n:
            return Tally()
        rows = repeated_keys(self.tables.source(), self.pipeline).limit(SHOWN).collect()
        return Tally(n, [row.text for row in rows])


def observed_figures(observation: "Observation") -> list[Any]:
    """What Spark has counted. PySpark waits for it without a limit; an optimizer may leave out what gives no row."""
    figures: list[Any] = []

    def get() -> None:
        with contextlib.suppress(Exception):  # of Spark Connect, which does not wait
            figures.extend(observation.get[name] for name in FIGURES)

    waiting = threading.Thread(target=get, daemon=True)
    waiting.start()
    waiting.join(OBSERVED_SECONDS)
    if len(figures) < len(FIGURES):
        raise NotClean("rows that Spark has not counted")
    return figures


def take(found: Found, tables: Iterable[pa.RecordBatch | pa.Table]) -> None:
    """Adds what passes returned, by its kind."""
    for table in tables:
        for row in table.to_pylist():
            found[row["kind"]].append(json.loads(row["text"]))


def add(totals: Iterable[Total]) -> Total:
    return sum(totals, Total())


def as_json(*figures: str) -> str:
    return f"to_json(array({', '.join(f'CAST({figure} AS bigint)' for figure in figures)}))"


def counted(kind: str, rows: "DataFrame") -> "DataFrame":
    return rows.selectExpr(f"'{kind}' AS kind", f"{as_json('count(*)')} AS text")


def visible_by_transaction(case: Case, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Source records, in all and by the transaction that covers each."""
    drop_archives()
    everything, counts = Total(), defaultdict[tuple[int, int], int](int)
    for batch in rows:
        offset, partition = integers(batch, "o_offset"), integers(batch, "o_partition")
        everything += total(hash_rows(offset, partition))
        for p in np.unique(partition).tolist():
            starts = np.array(case.scopes[p].transactions, np.int64)
            at = np.searchsorted(starts, offset[partition == p], "right") - 1
            for number, n in zip(*np.unique(at, return_counts=True), strict=True):
                if number >= 0:
                    counts[p, int(starts[number])] += int(n)
    transactions = [("transaction", [*place, n]) for place, n in counts.items()]
    yield results([("visible", [everything.n, everything.sum, 0]), *transactions])


def content_by_place(case: Case, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The outputs of a transform that declares partitions, each in the partition where it belongs."""
    drop_archives()
    content, kept = Total(), Total()
    for batch in rows:
        offset, source, topic = (integers(batch, c) for c in ("o_offset", "o_partition", "topic"))
        kept += total(hash_rows(offset, source))
        compared = batch["compared"].to_numpy(zero_copy_only=False)
        where = source.copy()  # a dead letter is in the partition of its origin
        for number, count in enumerate(case.counts):
            here = np.flatnonzero(topic == number)
            chosen = batch.take(pa.array(here))
            where[here] = partitions(chosen["key"], chosen["partition"], source[here], count)
        columns = (integers(batch, "digest"), offset, source, topic, where)
        content += content_total(case, *(column[compared] for column in columns))
    yield results([("again", [content.n, content.sum, 0]), ("kept", [kept.n, kept.sum, 0])])


def results(rows: list[tuple[str, list[Any]]]) -> pa.RecordBatch:
    kinds, texts = zip(*((kind, json.dumps(content)) for kind, content in rows), strict=True)
    return pa.record_batch({"kind": pa.array(kinds), "text": pa.array(texts)})
