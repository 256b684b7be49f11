"""The provenance map: which sink offset came from which source offset, in compact columns.

One message names the records that one transaction wrote to one partition of one topic, or the source records that it
skipped. Its value is an Arrow IPC stream; docs/contract.md describes how to read it without this project.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Message

from eos_assets.log.corrupt_entry import CorruptEntry

VERSION = "1"
#: The rows of one message: about 1 MB before compression, well below the limit of any broker.
ROWS = 50_000
SKIPPED = "skipped"

Offsets = npt.NDArray[np.int64]
COLUMNS = [("sink_offset", pa.int64()), ("source_offset", pa.int64()), ("sequence", pa.int32())]


@dataclass(frozen=True)
class ProvenanceMap:
    """The records of one sink partition, in its order. For skipped records the sink offsets are all -1."""

    source_partition: int
    start: int
    topic: str
    partition: int
    sink_offsets: Offsets
    source_offsets: Offsets
    sequences: Offsets

    @property
    def of_repair(self) -> bool:
        """Whether a repair wrote this map: its `start` is minus the number of the repair."""
        return self.start < 0

    @property
    def skips(self) -> bool:
        """Whether this map names skipped records. Its topic does not show that: a sink may be named `skipped`, too."""
        return len(self.sink_offsets) > 0 and self.sink_offsets[0] < 0

    def messages(self) -> Iterator[bytes]:
        """The map as values of messages. Offsets are deltas to the row before; the first one is absolute."""
        for low in range(0, len(self.source_offsets), ROWS):
            rows = slice(low, low + ROWS)
            columns = [
                pa.array(deltas(self.sink_offsets[rows])),
                pa.array(deltas(self.source_offsets[rows])),
                pa.array(self.sequences[rows].astype(np.int32)),
            ]
            metadata = {
                "version": VERSION,
                "source_partition": str(self.source_partition),
                "start": str(self.start),
                "topic": self.topic,
                "partition": str(self.partition),
            }
            schema = pa.schema(COLUMNS, metadata=metadata)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
                writer.write_batch(pa.record_batch(columns, schema=schema))
            yield sink.getvalue().to_pybytes()


def read(message: Message) -> ProvenanceMap:
    """The map that a message holds. Every other message is an error, never passed over."""
    return read_at(message.topic() or "", message.partition() or 0, message.offset() or 0, message.value())


def read_at(topic: str, partition: int, offset: int, value: bytes | None) -> ProvenanceMap:
    """The map of a value that was read from this offset."""
    try:
        return load(value or b"")
    except Exception as failure:
        raise CorruptEntry(topic, partition, offset, "provenance map", failure) from failure


def load(value: bytes) -> ProvenanceMap:
    """The inverse of `messages`, for one message."""
    with pa.ipc.open_stream(value) as reader:
        table = reader.read_all()
    metadata = {key.decode(): text.decode() for key, text in table.schema.metadata.items()}
    if metadata["version"] != VERSION:
        raise ValueError(f"provenance version {metadata['version']} is unknown, this is version {VERSION}")
    return ProvenanceMap(
        source_partition=int(metadata["source_partition"]),
        start=int(metadata["start"]),
        topic=metadata["topic"],
        partition=int(metadata["partition"]),
        sink_offsets=np.cumsum(table["sink_offset"].to_numpy()),
        source_offsets=np.cumsum(table["source_offset"].to_numpy()),
        sequences=table["sequence"].to_numpy().astype(np.int64),
    )


def deltas(offsets: Offsets) -> Offsets:
    """The difference of each offset to the one before, which compresses well."""
    return np.diff(offsets, prepend=np.int64(0))
