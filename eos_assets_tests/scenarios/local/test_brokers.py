"""Three brokers: records that two of them acknowledged survive the kill of any one."""

from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType

from eos_assets.declare.topic import Topic
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.local.broker import KafkaCluster
from eos_assets.platform.settings import Settings
from eos_assets_tests.kafka.reading import read_integers
from eos_assets_tests.waiting import wait_for


def test_three_nodes_survive_the_kill_of_any_one(settings: Settings, tmp_path: Path) -> None:
    with KafkaCluster(tmp_path, brokers=3, settings=settings) as cluster:
        connection = Connection(cluster.bootstrap_servers)
        create_topics([Topic("t", partitions=3)], connection)
        partitions = connection.metadata().topics["t"].partitions
        assert [len(p.replicas) for p in partitions.values()] == [3, 3, 3]
        for node in cluster.nodes:
            fill(connection, "t", 1000)
            cluster.kill(node.id)
            fill(connection, "t", 1000)  # two of three are enough to acknowledge
            survivors = ",".join(n.address for n in cluster.nodes if n is not node)
            assert read_integers(survivors, "t") == list(range(2000 * node.id))
            cluster.restart(node.id)
            in_sync(connection, "t")
        transact(connection)
        for internal in ("__consumer_offsets", "__transaction_state"):
            known = connection.metadata().topics[internal].partitions
            assert {len(p.replicas) for p in known.values()} == {3}
            resource = ConfigResource(ResourceType.TOPIC, internal)
            config = connection.admin.describe_configs([resource])[resource].result()
            assert config["min.insync.replicas"].value == "2"


def transact(connection: Connection) -> None:
    """One transaction with an offset in it, so that both internal topics exist."""
    producer = Producer(connection.config(transactional_id="t"))
    producer.init_transactions(60)
    producer.begin_transaction()
    consumer = Consumer(connection.config(group_id="g"))
    producer.send_offsets_to_transaction([TopicPartition("t", 0, 1)], consumer.consumer_group_metadata(), 60)
    producer.commit_transaction(60)
    consumer.close()


def in_sync(connection: Connection, topic: str) -> None:
    wait_for(lambda: all(len(p.isrs) == 3 for p in connection.metadata().topics[topic].partitions.values()))
