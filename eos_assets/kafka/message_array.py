"""Arrow columns as the array of messages that librdkafka takes."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eos_assets.kafka._librdkafka import MESSAGE
from eos_assets.kafka.partitioner import value_bounds

Addresses = npt.NDArray[np.uintp]

#: An address for empty values, because a null pointer means a null value.
EMPTY = np.zeros(1, np.uint8)


def message_array(keys: pa.Array, values: pa.Array) -> npt.NDArray[np.void]:
    """One message per row. It holds addresses into the two columns, so they must outlive it."""
    messages = np.zeros(len(values), MESSAGE)
    messages["key"], messages["key_len"] = addresses(keys)
    messages["payload"], messages["len"] = addresses(values)
    return messages


def addresses(column: pa.Array) -> tuple[Addresses, Addresses]:
    """The address of each value, 0 for a null, and its length."""
    bounds, data = value_bounds(column).astype(np.uintp), column.buffers()[2]
    base = data.address if data is not None and data.size else EMPTY.ctypes.data
    starts, lengths = np.uintp(base) + bounds[:-1], np.diff(bounds)
    if column.null_count:
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        starts[nulls], lengths[nulls] = 0, 0
    return starts, lengths
