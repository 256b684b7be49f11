"""A Produce request in the protocol of older clients, which no coordinator verifies: it leaves an orphan."""

import time

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from eos_assets.kafka.connection import Connection

#: The last version in which a producer adds partitions to its transaction in requests of their own.
VERSION = 11
TRANSACTIONAL = True


def produce_late(
    connection: Connection, place: tuple[str, int], value: bytes, producer: tuple[int, int, int], age_seconds: float
) -> None:
    """Produce one transactional record, as a request that was delayed past the end of its transaction arrives.

    Args:
        connection: the cluster. Its brokers have `transaction.partition.verification.enable=false`.
        place: topic and partition.
        value: key and value of the record.
        producer: producer id, epoch and sequence.
        age_seconds: how long ago the record was written.
    """
    batch = DefaultRecordBatchBuilder(2, 0, TRANSACTIONAL, *producer, 1 << 20)
    batch.append(0, int((time.time() - age_seconds) * 1000), value, value, [])
    records = ProduceRequest.TopicProduceData.PartitionProduceData(index=place[1], records=bytes(batch.build()))
    topic = ProduceRequest.TopicProduceData(name=place[0], partition_data=[records])
    request = ProduceRequest(transactional_id="late", acks=-1, timeout_ms=5000, topic_data=[topic], max_version=VERSION)
    with KafkaAdminClient(bootstrap_servers=connection.bootstrap_servers) as client:

        async def send() -> int:
            (leader,) = await client._async_get_leader_for_partitions([TopicPartition(*place)])
            response = await client._manager.send(request, node_id=leader)
            code: int = response.responses[0].partition_responses[0].error_code
            return code

        assert client._manager.run(send) == 0
