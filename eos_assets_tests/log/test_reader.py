"""The reader of what is committed, against transactions that somebody else leaves open."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from eos_assets.errors import Code
from eos_assets.log.reader import CommittedReader, TransactionHangs
from eos_assets_tests.run.lab import MakeLab


def test_a_group_offset_that_stays_in_an_open_transaction_is_named_after_a_limited_time(make_lab: MakeLab) -> None:
    """F7: a broker that died may leave such a transaction. Here another producer has it open."""
    lab = make_lab(kind="batches", partitions=1)
    lab.fill(10)
    assert lab.run().complete
    names = lab.pipeline.names()
    producer = lab.open_transaction([])
    group = Consumer(lab.connection.config(group_id=names.group))
    producer.send_offsets_to_transaction([TopicPartition(lab.source, 0, 3)], group.consumer_group_metadata(), 10)
    reader = CommittedReader(lab.connection.config(), names)
    try:
        with pytest.raises(TransactionHangs, match="still open") as raised:
            reader.group_offset(0, seconds=0.5)
        assert raised.value.code is Code.TRANSACTION_HANGS
        producer.abort_transaction(10)
        assert reader.group_offset(0) == 10
    finally:
        reader.close()
        group.close()
