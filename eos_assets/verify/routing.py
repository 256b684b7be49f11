"""The partition where each record belongs, computed for the proof.

The sink has an implementation of its own. Both share only Kafka's hash, so an error in the sink's routing is found.
"""

import numpy as np
import pyarrow as pa

from eos_assets.kafka.partitioner import partitions_of
from eos_assets.verify.sorted_rows import Integers


def expected_partitions(keys: pa.Array, declared: pa.Array | None, source_partition: Integers, count: int) -> Integers:
    """The partition that the transform declares, else the one that Kafka's Java client chooses for the key. A record
    without a key goes by its source partition."""
    expected = np.asarray(source_partition, np.int64) % count
    has_key = keys.is_valid().to_numpy(zero_copy_only=False)
    if has_key.any():
        expected[has_key] = partitions_of(keys.drop_null(), count)
    if declared is not None:
        is_declared = declared.is_valid().to_numpy(zero_copy_only=False)
        expected[is_declared] = declared.drop_null().to_numpy()
    return expected
