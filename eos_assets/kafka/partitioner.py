"""The default partitioner of Kafka's Java client, for a whole Arrow batch of keys at a time."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SEED = np.uint32(0x9747B28C)
MIX = np.uint32(0x5BD1E995)


def partitions_of(keys: pa.BinaryArray, count: int) -> npt.NDArray[np.int32]:
    """The partition of each key among `count` partitions. Null keys are refused, because they hash to no partition."""
    if keys.null_count:
        raise ValueError("a null key has no partition")
    positive = murmur2(keys) & np.uint32(0x7FFFFFFF)
    return (positive % np.uint32(count)).astype(np.int32)


def murmur2(keys: pa.BinaryArray) -> npt.NDArray[np.uint32]:
    """The 32-bit murmur2 hash of each key, as `org.apache.kafka.common.utils.Utils.murmur2` computes it."""
    bounds, data_buffer = value_bounds(keys), keys.buffers()[2]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.zeros(0, np.uint8)
    words = np.ndarray(max(0, len(data) - 3), "<u4", data.data, strides=(1,))  # the word that starts at each byte
    starts, lengths = bounds[:-1], np.diff(bounds)
    with np.errstate(over="ignore"):
        hashes = SEED ^ lengths.astype(np.uint32)
        whole_words = lengths // 4
        for word in range(int(whole_words.max(initial=0))):
            rows = np.flatnonzero(whole_words > word)
            hashes[rows] = (hashes[rows] * MIX) ^ mix(words[starts[rows] + 4 * word])
        tails = lengths % 4
        for tail in (1, 2, 3):
            rows = np.flatnonzero(tails == tail)
            offsets = starts[rows] + 4 * whole_words[rows]
            hashes[rows] = (hashes[rows] ^ read_little_endian(data, offsets, tail)) * MIX
        hashes ^= hashes >> np.uint32(13)
        hashes *= MIX
        hashes ^= hashes >> np.uint32(15)
    return hashes


def value_bounds(column: pa.Array) -> npt.NDArray[np.int64]:
    """The start of each value, and the end of the last one, in the data buffer of a binary array."""
    if not len(column):
        return np.zeros(1, np.int64)
    kind = np.dtype(np.int64 if pa.types.is_large_binary(column.type) else np.int32)
    return np.frombuffer(column.buffers()[1], kind, len(column) + 1, column.offset * kind.itemsize).astype(np.int64)


def mix(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    words = words * MIX
    return (words ^ (words >> np.uint32(24))) * MIX


def read_little_endian(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], size: int
) -> npt.NDArray[np.uint32]:
    """The number of `size` bytes at each offset."""
    numbers = np.zeros(len(offsets), np.uint32)
    for byte in range(size):
        numbers |= data[offsets + byte].astype(np.uint32) << np.uint32(8 * byte)
    return numbers
