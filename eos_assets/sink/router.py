"""The topic and partition of each row: the topic by its name, the partition by declaration, key or source partition."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.errors import Code, TaskError
from eos_assets.kafka.partitioner import partitions_of
from eos_assets.sink.job import Job

Integers = npt.NDArray[np.int64]


class Router:
    """Routes the rows of one source partition."""

    def __init__(self, job: Job, source_partition: int) -> None:
        self.job = job
        self.source_partition = source_partition

    def route(self, rows: pa.RecordBatch) -> list[tuple[str, int, Integers]]:
        """Topic, partition and the indexes of the rows that go there, in their order."""
        routes = []
        for topic, chosen in self._topics(rows):
            subset = rows if chosen is None else rows.take(pa.array(chosen))
            count = self.job.sink_partitions[topic]
            partitions = self._partitions(subset, count, topic)
            order = np.argsort(partitions, kind="stable")
            bounds = np.searchsorted(partitions[order], np.arange(count + 1))
            for partition in np.flatnonzero(np.diff(bounds)).tolist():
                indexes = order[bounds[partition] : bounds[partition + 1]]
                routes.append((topic, partition, indexes if chosen is None else chosen[indexes]))
        return routes

    def _topics(self, rows: pa.RecordBatch) -> list[tuple[str, Integers | None]]:
        """Each topic and the indexes of its rows; None for all rows."""
        if "topic" not in rows.schema.names:
            return [(self.job.names.sink(self.job.default_topic), None)]
        encoded = pc.fill_null(rows["topic"], self.job.default_topic).dictionary_encode()
        indexes = encoded.indices.to_numpy()
        return [
            (self._declared_topic(name), np.flatnonzero(indexes == number))
            for number, name in enumerate(encoded.dictionary.to_pylist())
        ]

    def _declared_topic(self, name: str) -> str:
        topic = self.job.names.sink(name)
        if topic not in self.job.sink_partitions:
            declared = ", ".join(self.job.sink_partitions)
            raise TaskError(
                Code.INVALID_RESULT,
                f"the transform sent a record to topic {name}, which is not declared: use one of {declared}, or "
                "declare it as a sink",
            )
        return topic

    def _partitions(self, rows: pa.RecordBatch, count: int, topic: str) -> npt.NDArray[np.int16]:
        declared = rows["partition"] if "partition" in rows.schema.names else None
        partitions = choose_partitions(rows["key"], declared, self.source_partition, count)
        outside = (partitions < 0) | (partitions >= count)
        if declared is not None and outside.any():
            raise TaskError(
                Code.INVALID_RESULT,
                f"the transform sent a record to partition {partitions[outside][0]} of {topic}: use 0 to {count - 1}",
            )
        return partitions.astype(np.int16 if count < 1 << 15 else np.int64)  # short integers sort faster


def choose_partitions(keys: pa.Array, declared: pa.Array | None, source_partition: int, count: int) -> Integers:
    """The partition that the transform declares, else the one that Kafka's Java client chooses for the key. A row
    without a key follows its source partition, which keeps its order."""
    partitions = np.full(len(keys), source_partition % count, np.int64)
    if not keys.null_count:
        partitions[:] = partitions_of(keys, count)
    elif keys.null_count < len(keys):
        partitions[keys.is_valid().to_numpy(zero_copy_only=False)] = partitions_of(keys.drop_null(), count)
    if declared is not None:
        partitions[declared.is_valid().to_numpy(zero_copy_only=False)] = declared.drop_null().to_numpy()
    return partitions
