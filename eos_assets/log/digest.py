"""The digest of a record, in Spark and of Arrow batches. The ledger holds sums of digests modulo 2^64.

It is Spark's `xxhash64`: each column is hashed with the hash of the column before it as the seed; docs/contract.md has
the definition. Without Spark, NumPy hashes all short values of one length at a time; a long value, or one of a rare
length, is hashed by itself.
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from eos_assets.kafka.partitioner import value_bounds

if TYPE_CHECKING:
    from pyspark.sql import Column

KEY, VALUE = "CAST(`key` AS binary)", "CAST(`value` AS binary)"

Hashes = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]

SEED = 42
PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
#: From this length on, hashing each value alone is faster than the steps over all values of one length.
LONG_VALUE = 128
#: With fewer values of one length, hashing each alone is faster, too.
FEW_VALUES = 16


def digest_expression(key: str = KEY, *, with_headers: bool) -> str:
    """The digest of key and value, and of the headers if the pipeline writes any, as a SQL expression.

    A null differs from an empty value. Topic, partition and offset are left out, because there is one sum for each
    partition of each topic.
    """
    return f"xxhash64({key}, {key} IS NULL, {VALUE}, {VALUE} IS NULL{', `headers`' * with_headers})"


def digest_column(*, with_headers: bool) -> "Column":
    """The digest as a column."""
    from pyspark.sql import functions as f

    return f.expr(digest_expression(with_headers=with_headers))


def row_digests(keys: pa.Array, values: pa.Array, headers: pa.Array | None = None) -> Integers:
    """The digest of each row, as the signed integer that Spark returns."""
    hashes = np.full(len(keys), SEED, np.uint64)
    for column in (keys, values):
        hashes = hash_bytes(column, hashes)
        hashes = hash_flags(column.is_null().to_numpy(zero_copy_only=False), hashes)
    if headers is not None:
        hashes = hash_headers(headers, hashes)
    return hashes.view(np.int64)


def hash_bytes(column: pa.Array, seeds: Hashes) -> Hashes:
    """Hash each value with its own seed. A null leaves the seed as it is."""
    bounds, buffer = value_bounds(column), column.buffers()[2]
    first, bounds = int(bounds[0]), bounds - bounds[0]
    size = int(bounds[-1])
    data = np.zeros(size + 8, np.uint8)  # eight more bytes than there are: a word can be read at each position
    if size:
        data[:size] = np.frombuffer(buffer, np.uint8, size, first)
    hashes, lengths = seeds.copy(), np.diff(bounds)
    if column.null_count:
        lengths = np.where(column.is_null().to_numpy(zero_copy_only=False), -1, lengths)
    for length, rows in group_by_length(lengths):
        starts = bounds[rows]
        if length >= LONG_VALUE or len(rows) < FEW_VALUES:
            hashes[rows] = hash_one_by_one(data, starts, bounds[rows + 1], seeds[rows])
        else:
            hashes[rows] = hash_words(data, starts, length, seeds[rows])
    return hashes


def group_by_length(lengths: Integers) -> Iterator[tuple[int, Integers]]:
    """Each length and the rows that have it; long values together."""
    capped = np.minimum(lengths, LONG_VALUE)
    if len(capped) and capped.min() == capped.max() >= 0:
        yield int(capped[0]), np.arange(len(capped))
        return
    order = np.argsort(capped.astype(np.int16), kind="stable")
    sorted_lengths = capped[order]
    firsts = np.flatnonzero(np.diff(sorted_lengths, prepend=-2))
    for first, last in itertools.pairwise([*firsts.tolist(), len(order)]):
        if sorted_lengths[first] >= 0:
            yield int(sorted_lengths[first]), order[first:last]


def hash_one_by_one(data: npt.NDArray[np.uint8], starts: Integers, ends: Integers, seeds: Hashes) -> Hashes:
    view, digest = memoryview(data.data), xxhash.xxh64_intdigest
    bounds = zip(starts.tolist(), ends.tolist(), seeds.tolist(), strict=True)
    return np.array([digest(view[start:end], seed) for start, end, seed in bounds], np.uint64)


def hash_words(data: npt.NDArray[np.uint8], starts: Integers, length: int, seeds: Hashes) -> Hashes:
    """Hash values of one length, all at the same time."""
    # Overlapping words: the one at index i begins at byte i.
    words = np.ndarray(len(data) - 7, "<u8", data, strides=(1,))
    halves = np.ndarray(len(data) - 3, "<u4", data, strides=(1,))
    stripes, whole = length - length % 32, length - length % 8
    with np.errstate(over="ignore"):
        hashes = hash_stripes(words, starts, stripes, seeds) if stripes else seeds + PRIME_5
        hashes = hashes + np.uint64(length)
        for position in range(stripes, whole, 8):
            hashes = rotate(hashes ^ mix(words[starts + position]), 27) * PRIME_1 + PRIME_4
        rest = whole
        if length - whole >= 4:
            half = halves[starts + whole].astype(np.uint64)
            hashes = rotate(hashes ^ (half * PRIME_1), 23) * PRIME_2 + PRIME_3
            rest += 4
        for position in range(rest, length):
            hashes = rotate(hashes ^ (data[starts + position].astype(np.uint64) * PRIME_5), 11) * PRIME_1
        return finish(hashes)


def hash_stripes(words: Hashes, starts: Integers, end: int, seeds: Hashes) -> Hashes:
    """The four lanes of values with 32 bytes or more."""
    lanes = [seeds + (PRIME_1 + PRIME_2), seeds + PRIME_2, seeds, seeds - PRIME_1]
    for position in range(0, end, 32):
        for number in range(4):
            lanes[number] = rotate(lanes[number] + words[starts + (position + 8 * number)] * PRIME_2, 31) * PRIME_1
    merged = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18)
    for lane in lanes:
        merged = (merged ^ mix(lane)) * PRIME_1 + PRIME_4
    return merged


def hash_flags(flags: npt.NDArray[np.bool_], seeds: Hashes) -> Hashes:
    """Hash a boolean as the integer of four bytes that Spark makes of it."""
    with np.errstate(over="ignore"):
        hashes = (seeds + (PRIME_5 + np.uint64(4))) ^ (flags.astype(np.uint64) * PRIME_1)
        return finish(rotate(hashes, 23) * PRIME_2 + PRIME_3)


def hash_headers(headers: pa.Array, seeds: Hashes) -> Hashes:
    """Hash names and contents in their order. Nulls leave the seed as it is."""
    hashes = seeds.copy()
    filled = pc.fill_null(pc.greater(pc.list_value_length(headers), 0), False)
    for row in np.flatnonzero(filled.to_numpy(zero_copy_only=False)).tolist():
        seed = int(hashes[row])
        for header in headers[row].as_py():
            for content in (header["key"].encode(), header["value"]) if header else ():
                seed = seed if content is None else xxhash.xxh64_intdigest(content, seed)
        hashes[row] = seed
    return hashes


def mix(words: Hashes) -> Hashes:
    mixed: Hashes = rotate(words * PRIME_2, 31) * PRIME_1
    return mixed


def rotate(bits: Hashes, by: int) -> Hashes:
    return (bits << np.uint64(by)) | (bits >> np.uint64(64 - by))


def finish(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * PRIME_2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * PRIME_3
    return hashes ^ (hashes >> np.uint64(32))
