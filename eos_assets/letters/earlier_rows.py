"""What the maps name of the source records of dead letters: the rows that they gave before."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from eos_assets.context import PipelineContext
from eos_assets.kafka.offsets import offsets_for_times, stable_ends
from eos_assets.kafka.reader import read_partition
from eos_assets.letters.letter import CLOCK_SKEW_MS
from eos_assets.log import provenance
from eos_assets.log.provenance import ProvenanceMap


@dataclass
class EarlierRows:
    """The rows of one source record that transactions have written."""

    #: The first sequence that none of them has.
    next_sequence: int = 0
    #: Whether a run gave a dead letter, and anything else: an output or a skip.
    rejected: bool = False
    delivered: bool = False


def find_earlier_rows(
    context: PipelineContext, partition: int, offsets: Collection[int], since_ms: int
) -> dict[int, EarlierRows]:
    """Source offset → what the maps name of it; without those that no retained map names.

    Args:
        context: the pipeline and where it runs.
        partition: the source partition.
        offsets: the source offsets of the letters.
        since_ms: when the oldest of them was written. Its map was written later, in the same transaction.
    """
    found: dict[int, EarlierRows] = {}
    wanted = np.array(sorted(offsets), np.int64)
    for one in read_maps(context, partition, since_ms - CLOCK_SKEW_MS):
        for row in np.flatnonzero(np.isin(one.source_offsets, wanted)).tolist():
            rows = found.setdefault(int(one.source_offsets[row]), EarlierRows())
            rows.next_sequence = max(rows.next_sequence, int(one.sequences[row]) + 1)
            is_letter = one.topic == context.names.dead_letters and not one.skips
            rows.rejected |= is_letter
            rows.delivered |= not is_letter and not one.of_repair  # the marks show what another replay delivers
    return found


def read_maps(context: PipelineContext, partition: int, since_ms: int) -> Iterator[ProvenanceMap]:
    topic = context.names.provenance
    start = offsets_for_times(context.kafka, topic, {partition: since_ms})[partition]
    end = stable_ends(context.kafka, topic, [partition])[partition]
    return map(provenance.read, read_partition(context.kafka, topic, partition, start, end))
