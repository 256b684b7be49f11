"""Add up source records and recomputed outputs in tasks, where Spark's SQL cannot do it.

These are plain functions of Arrow batches: one for transforms that drop records, one for those that declare partitions.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from eos_assets.verify.routing import expected_partitions
from eos_assets.verify.scope import ProofScope, count_by_transaction
from eos_assets.verify.sorted_rows import integers
from eos_assets.verify.totals.pass_results import result_batch
from eos_assets.verify.totals.sink_pass import content_total
from eos_assets.verify.totals.total import Total, hash_rows, total
from eos_assets.worker_path import drop_archives


def add_by_transaction(scope: ProofScope, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up source records, in all and by the transaction that covers each."""
    drop_archives()
    everything, counts = Total(), defaultdict[tuple[int, int], int](int)
    for batch in batches:
        offset, partition = integers(batch, "o_offset"), integers(batch, "o_partition")
        everything += total(hash_rows(offset, partition))
        for transaction, n in count_by_transaction(scope, partition, offset):
            counts[transaction] += n
    transactions = [("transaction", [*transaction, n]) for transaction, n in counts.items()]
    yield result_batch([("visible", [everything.n, everything.sum, 0]), *transactions])


def add_by_place(scope: ProofScope, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up the outputs of a transform that declares partitions, each in the partition where it belongs."""
    drop_archives()
    content, kept = Total(), Total()
    for batch in batches:
        offset, source, topic = (integers(batch, c) for c in ("o_offset", "o_partition", "topic"))
        kept += total(hash_rows(offset, source))
        compared = batch["compared"].to_numpy(zero_copy_only=False)
        partition = source.copy()  # a dead letter is in the partition of its origin
        for number, count in enumerate(scope.sink_partitions):
            rows = np.flatnonzero(topic == number)
            chosen = batch.take(pa.array(rows))
            partition[rows] = expected_partitions(chosen["key"], chosen["partition"], source[rows], count)
        columns = (integers(batch, "digest"), offset, source, topic, partition)
        content += content_total(scope, *(column[compared] for column in columns))
    yield result_batch([("recomputed", [content.n, content.sum, 0]), ("kept", [kept.n, kept.sum, 0])])
