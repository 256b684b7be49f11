"""Read the group offsets that belong to the window of a proof."""

from collections.abc import Iterator

from confluent_kafka import KafkaError, KafkaException

from eos_assets.context import PipelineContext
from eos_assets.log.ledger import LedgerEntry
from eos_assets.log.reader import CommittedReader
from eos_assets.run.preflight.topic_ids import check_ids
from eos_assets.verify.ledger_window import LedgerWindow
from eos_assets.verify.window import PartitionWindow

#: How long to wait for a group offset that an open transaction holds.
GROUP_PATIENCE_SECONDS = 5


def read_group_offsets(context: PipelineContext, since: LedgerWindow) -> dict[int, int | None]:
    """The stable group offsets. Where a run has committed meanwhile, the position of the window stands in for one that
    belongs to a later entry."""
    offsets: dict[int, int | None] = {}
    reader = CommittedReader(context.kafka.config(), context.names)
    try:
        ids = context.kafka.topic_ids([context.pipeline.source.name, context.names.ledger, *since.written])
        for partition, window in since.partitions.items():
            if context.exactly_once:
                check_ids(context.pipeline, reader.genesis(partition), ids)
            for offset in stable_group_offset(reader, partition):
                committed_since = context.exactly_once and has_later_entry(reader, window, offset)
                offsets[partition] = window.position if committed_since else offset
    finally:
        reader.close()
    return offsets


def stable_group_offset(reader: CommittedReader, partition: int) -> Iterator[int | None]:
    """The group offset, or nothing while an open transaction holds it: `no_open_transactions` reports that one."""
    try:
        yield reader.group_offset(partition, seconds=GROUP_PATIENCE_SECONDS)
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError._TIMED_OUT:
            raise


def has_later_entry(reader: CommittedReader, window: PartitionWindow, offset: int | None) -> bool:
    """Whether a run has committed since the ledger was read, so that the group offset belongs to a later entry."""
    if offset is None or (window.position is not None and offset <= window.position):
        return False
    tail = reader.ledger_tail(window.partition)
    return isinstance(tail, LedgerEntry) and tail.next >= offset
