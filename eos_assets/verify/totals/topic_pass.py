"""The passes over partitions that a task, or the driver, reads itself: along the sinks and their maps, and over the
source of an Arrow pipeline, whose function runs again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.kafka.range_reader import PartitionRange, read_batches
from eos_assets.log.digest import row_digests
from eos_assets.transform.arrow_function import ArrowFunction
from eos_assets.verify.scope import ProofScope, lookup
from eos_assets.verify.sorted_rows import Flags, Integers
from eos_assets.verify.totals.map_reader import MapMessage
from eos_assets.verify.totals.sink_pass import ContentTotals, SinkPass, VisibleTotals
from eos_assets.verify.totals.total import result_batch
from eos_assets.worker import prepare_worker

#: The most passes that the driver runs at a time.
THREADS = 8


class TopicPass(Protocol):
    """A pass over one partition of a topic."""

    @property
    def range(self) -> PartitionRange: ...

    def run(self, scope: ProofScope, config: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """Read the partition, and return what was added up."""


@dataclass(frozen=True)
class SinkPartitionPass:
    """The pass along one partition of a sink."""

    number: int
    range: PartitionRange
    #: The messages that name its records.
    messages: list[MapMessage]

    def run(self, scope: ProofScope, config: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        records = map(self.digest, read_batches(config, self.range, ("headers",)))
        return SinkPass(scope, {(self.number, self.range.partition): self.messages}).run(records)

    def digest(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch(
            {
                "topic": pa.array(np.full(batch.num_rows, self.number, np.int32)),
                "sink_partition": pa.array(np.full(batch.num_rows, self.range.partition, np.int32)),
                "sink_offset": batch["offset"],
                "key": batch["key"],
                "digest": pa.array(row_digests(batch["key"], batch["value"], batch["headers"])),
            }
        )


@dataclass(frozen=True)
class SourcePartitionPass:
    """The pass over one partition of the source: its visible records, and the outputs when the function runs again."""

    range: PartitionRange
    #: None if the function is not deterministic.
    function: ArrowFunction | None
    #: Offsets that have only dead letters: the function may raise on them.
    set_aside: frozenset[int]
    #: Sink, as the function names it → its number.
    topics: dict[str, int]

    def run(self, scope: ProofScope, config: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        visible, content = VisibleTotals(scope), ContentTotals(scope)
        partition = self.range.partition
        columns = self.function.columns if self.function else ()
        start = int(lookup(scope, np.array([partition]), "recompute_start")[0])
        for batch in read_batches(config, self.range, columns):
            offsets = batch["offset"].to_numpy()
            visible.add(np.full(len(offsets), partition), offsets)
            if self.function is not None:
                for half in halves(batch.filter(pa.array(self.is_compared(offsets, start)))):
                    content.add(self.outputs(scope, self.function, half))
        yield result_batch([*visible.results(), *(content.results() if self.function else [])])

    def is_compared(self, offsets: Integers, start: int) -> Flags:
        compared = offsets >= start
        if self.set_aside:
            compared &= ~np.isin(offsets, np.fromiter(self.set_aside, np.int64))
        return compared

    def outputs(self, scope: ProofScope, function: ArrowFunction, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The outputs of a batch with the number of their topic, and whether each is compared with the sinks."""
        rows = function.apply(batch, self.range.partition, np.arange(batch.num_rows))
        present, dead_letters = set(rows.schema.names), len(scope.sink_partitions)
        headers = rows["headers"] if "headers" in present else None
        digests = row_digests(rows["key"], rows["value"], headers)
        topics, compared = self.topic_numbers(rows), np.ones(rows.num_rows, bool)
        if "skip" in present:
            compared &= ~pc.fill_null(rows["skip"], False).to_numpy(zero_copy_only=False)
        if "error" in present:
            rejected = rows["error"].is_valid().to_numpy(zero_copy_only=False)
            topics, digests = np.where(rejected, dead_letters, topics), np.where(rejected, 0, digests)
            compared &= ~rejected | scope.compares_dead_letters
        return pa.record_batch(
            {
                "o_offset": rows["o_offset"],
                "o_partition": rows["o_partition"],
                "topic": pa.array(topics),
                "digest": pa.array(digests),
                "key": rows["key"],
                "partition": rows["partition"] if "partition" in present else pa.nulls(rows.num_rows, pa.int64()),
                "compared": pa.array(compared),
            }
        )

    def topic_numbers(self, rows: pa.RecordBatch) -> Integers:
        """The number of each row's sink: the first one by default, -1 for one that is not declared."""
        if "topic" not in rows.schema.names:
            return np.zeros(rows.num_rows, np.int64)
        encoded = rows["topic"].dictionary_encode()
        numbers = np.array([*(self.topics.get(name, -1) for name in encoded.dictionary.to_pylist()), 0], np.int64)
        chosen: Integers = numbers[pc.fill_null(encoded.indices, len(numbers) - 1).to_numpy()]
        return chosen


def halves(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The halves of a batch. The run did not cut it there, so a function that combines records returns something
    else."""
    middle = batch.num_rows // 2
    for half in (batch.slice(0, middle), batch.slice(middle)):
        if half.num_rows:
            yield half


def topic_task(
    scope: ProofScope, config: dict[str, Any], passes: Sequence[TopicPass]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of a Spark task whose input names the passes that it runs."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            for index in batch["id"].to_pylist():
                yield from passes[index].run(scope, config)

    return task


def run_here(scope: ProofScope, config: dict[str, Any], passes: Sequence[TopicPass]) -> list[pa.RecordBatch]:
    """Run passes with few records in this process: a Spark task would take longer."""
    with ThreadPoolExecutor(THREADS) as threads:
        results = threads.map(lambda one: list(one.run(scope, config)), passes)
        return [batch for batches in results for batch in batches]
