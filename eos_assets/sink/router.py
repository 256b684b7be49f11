"""Where each row of a transform's result goes: its topic by name, its partition by declaration, key or source."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.errors import Code, TaskError
from eos_assets.kafka.partitioner import partitions_of
from eos_assets.sink.job import Job

Integers = npt.NDArray[np.int64]


class Routes:
    """The routes of the rows of one source partition."""

    def __init__(self, job: Job, source_partition: int) -> None:
        self.job = job
        self.source_partition = source_partition

    def route(self, rows: pa.RecordBatch) -> list[tuple[str, int, Integers]]:
        """Topic, partition and the indexes of the rows that go there, in their order."""
        routed = []
        for topic, chosen in self.topics(rows):
            subset = rows if chosen is None else rows.take(pa.array(chosen))
            count = self.job.sink_partitions[topic]
            where = self.partitions(subset, count, topic)
            order = np.argsort(where, kind="stable")
            bounds = np.searchsorted(where[order], np.arange(count + 1))
            for partition in np.flatnonzero(np.diff(bounds)).tolist():
                here = order[bounds[partition] : bounds[partition + 1]]
                routed.append((topic, partition, here if chosen is None else chosen[here]))
        return routed

    def topics(self, rows: pa.RecordBatch) -> list[tuple[str, Integers | None]]:
        """Each topic and the indexes of its rows; None for all rows."""
        if "topic" not in rows.schema.names:
            return [(self.job.names.sink(self.job.default_topic), None)]
        encoded = pc.fill_null(rows["topic"], self.job.default_topic).dictionary_encode()
        indices = encoded.indices.to_numpy()
        return [
            (self.declared(name), np.flatnonzero(indices == number))
            for number, name in enumerate(encoded.dictionary.to_pylist())
        ]

    def declared(self, name: str) -> str:
        topic = self.job.names.sink(name)
        if topic not in self.job.sink_partitions:
            declared = ", ".join(self.job.sink_partitions)
            raise TaskError(
                Code.INVALID_RESULT, f"the transform sent a record to topic {name}, which is not declared ({declared})"
            )
        return topic

    def partitions(self, rows: pa.RecordBatch, count: int, topic: str) -> npt.NDArray[np.int16]:
        given = rows["partition"] if "partition" in rows.schema.names else None
        routed = partitions(rows["key"], given, self.source_partition, count)
        if given is not None and ((routed < 0) | (routed >= count)).any():
            bad = int(routed[(routed < 0) | (routed >= count)][0])
            raise TaskError(
                Code.INVALID_RESULT, f"the transform sent a record to partition {bad} of {topic}, which has {count}"
            )
        return routed.astype(np.int16 if count < 1 << 15 else np.int64)  # sorting short integers is quicker


def partitions(
    keys: pa.Array, given: pa.Array | None, source_partitions: int | npt.NDArray[np.signedinteger], count: int
) -> Integers:
    """The partition a transform declares, else by the key as a Java client would choose it; a row without a key goes
    by its source partition, so its order is kept."""
    routed = np.zeros(len(keys), np.int64)
    routed[:] = source_partitions % count
    if not keys.null_count:
        routed[:] = partitions_of(keys, count)
    elif keys.null_count < len(keys):
        routed[keys.is_valid().to_numpy(zero_copy_only=False)] = partitions_of(keys.drop_null(), count)
    if given is not None:
        routed[given.is_valid().to_numpy(zero_copy_only=False)] = given.drop_null().to_numpy()
    return routed
