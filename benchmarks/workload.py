"""What every contender reads and computes: the records of a source, and how a value becomes the output."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]

FIRST_LETTER, LAST_LETTER = ord("a"), ord("z")
TO_UPPER_CASE = ord("a") - ord("A")


@dataclass(frozen=True)
class Workload:
    """One kind of records. Its key is a decimal number."""

    name: str
    title: str
    #: The records of a run of `make bench`.
    records: int
    #: The bytes of a value of random lower-case letters; None for the number of the key.
    value_bytes: int | None = None

    def keys_and_values(self, numbers: Integers) -> tuple[pa.Array, pa.Array]:
        """The records with these numbers. The same numbers, taken in the same steps, give the same records."""
        keys = pa.array(numbers).cast(pa.string()).cast(pa.binary())
        if self.value_bytes is None:
            return keys, keys
        random = np.random.default_rng(int(numbers[0]))
        letters = random.integers(FIRST_LETTER, LAST_LETTER + 1, len(numbers) * self.value_bytes, np.uint8)
        return keys, fixed_size(letters, self.value_bytes)

    def outputs(self, values: pa.Array) -> pa.Array:
        """What the sink must hold, computed without the code of any contender."""
        if self.value_bytes is None:
            numbers = values.cast(pa.string()).cast(pa.int64()).to_numpy()
            return pa.array(numbers * numbers).cast(pa.string()).cast(pa.binary())
        letters = np.frombuffer(b"".join(values.to_pylist()), np.uint8)
        is_lower = (letters >= FIRST_LETTER) & (letters <= LAST_LETTER)
        return fixed_size(letters - np.uint8(TO_UPPER_CASE) * is_lower, self.value_bytes)


def fixed_size(data: npt.NDArray[np.uint8], size: int) -> pa.Array:
    """Values of one size that follow each other in memory."""
    bounds = np.arange(0, len(data) + 1, size, dtype=np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("integers", "Short integers, squared", 4_000_000),
        Workload("100B", "Text of 100 bytes, in upper case", 1_500_000, 100),
        Workload("1KB", "Text of 1,000 bytes, in upper case", 400_000, 1000),
    )
}
INTEGERS = WORKLOADS["integers"]
