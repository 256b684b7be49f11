"""Keys in, partitions out, exactly as Kafka's Java client chooses them: murmur2, a whole batch at a time."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SEED = np.uint32(0x9747B28C)
MIX = np.uint32(0x5BD1E995)


def partitions_of(keys: pa.BinaryArray, count: int) -> npt.NDArray[np.int32]:
    """The partition of each key among `count`. Null keys have no place of their own and are refused."""
    if keys.null_count:
        raise ValueError("a null key has no partition")
    positive = murmur2(keys) & np.uint32(0x7FFFFFFF)
    return (positive % np.uint32(count)).astype(np.int32)


def murmur2(keys: pa.BinaryArray) -> npt.NDArray[np.uint32]:
    """The 32-bit murmur2 of each key, as `org.apache.kafka.common.utils.Utils.murmur2` has it."""
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = (
        np.frombuffer(offset_buffer, np.int32, len(keys) + 1, keys.offset * 4) if len(keys) else np.zeros(1, np.int32)
    )
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.zeros(0, np.uint8)
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
    with np.errstate(over="ignore"):
        hashes = SEED ^ lengths.astype(np.uint32)
        whole_words = lengths // 4
        for word in range(int(whole_words.max(initial=0))):
            rows = np.flatnonzero(whole_words > word)
            at = starts[rows] + 4 * word
            hashes[rows] = (hashes[rows] * MIX) ^ mixed(little_endian(data, at, 4))
        tails = lengths % 4
        for tail in (1, 2, 3):
            rows = np.flatnonzero(tails == tail)
            at = starts[rows] + 4 * whole_words[rows]
            hashes[rows] = (hashes[rows] ^ little_endian(data, at, tail)) * MIX
        hashes ^= hashes >> np.uint32(13)
        hashes *= MIX
        hashes ^= hashes >> np.uint32(15)
    return hashes


def mixed(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    words = words * MIX
    return (words ^ (words >> np.uint32(24))) * MIX


def little_endian(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.uint32]:
    """The number whose lowest byte stands at `at`, one for each row."""
    numbers = np.zeros(len(at), np.uint32)
    for byte in range(size):
        numbers |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return numbers
