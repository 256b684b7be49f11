"""The local Kafka: acknowledged records survive stop, SIGKILL and restart."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.local.broker import KafkaCluster
from eos_assets.local.broker_properties import escape
from eos_assets.platform.settings import Settings
from eos_assets_tests.kafka.reading import read_integers
from eos_assets_tests.waiting import wait_for


def test_acknowledged_data_survives_stop_and_kill(settings: Settings, tmp_path: Path) -> None:
    with KafkaCluster(
        tmp_path / "größer 😀 \\n", settings=settings
    ) as cluster:  # characters that a Java properties file escapes
        connection = Connection(cluster.bootstrap_servers)
        create_topics([Topic("t")], connection)
        assert (cluster.nodes[0].data / "meta.properties").is_file()
        fill(connection, "t", 1000)
        cluster.stop()
        assert not cluster.nodes[0].is_running()
        cluster.restart(1)
        fill(connection, "t", 1000)
        cluster.kill(1)
        assert not cluster.nodes[0].is_running()
        cluster.restart(1)
        assert read_integers(cluster.bootstrap_servers, "t") == list(range(2000))
        process = cluster.nodes[0].process
    assert process is not None
    assert not process.is_alive()


def test_everything_listens_on_loopback_only(connection: Connection, settings: Settings) -> None:
    if settings.bootstrap_servers:
        pytest.skip("EOS_BOOTSTRAP_SERVERS names a broker that these tests did not start")
    port = int(connection.bootstrap_servers.rpartition(":")[2])
    listening = [(c.pid, c.laddr) for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    (broker,) = {pid for pid, address in listening if address and address.port == port}
    addresses = {address.ip for pid, address in listening if address and pid == broker}
    assert all(address in ("127.0.0.1", "::ffff:127.0.0.1", "::1") for address in addresses), addresses


def test_a_broker_that_does_not_start_shows_the_end_of_its_log(settings: Settings, tmp_path: Path) -> None:
    cluster = KafkaCluster(tmp_path, settings=settings)
    cluster.start()
    cluster.stop()
    damaged = cluster.nodes[0].data / "meta.properties"
    damaged.write_text(damaged.read_text().replace("node.id=1", "node.id=77"))
    with pytest.raises(EosError, match=r"Kafka broker 1 ended while starting[\s\S]*broker\.log[\s\S]*77") as error:
        cluster.start()
    assert str(cluster.nodes[0].data) in error.value.remedy
    cluster.close()


def test_values_are_written_as_java_reads_them() -> None:
    assert escape("C:\\ä😀=b c") == r"C:\\\u00e4\ud83d\ude00=b c"


def test_a_folder_with_a_comma_is_refused(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(EosError, match="a,b: in its configuration a comma"):
        KafkaCluster(tmp_path / "a,b", settings=settings)


def test_four_brokers_are_refused(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(EosError, match="4 brokers"):
        KafkaCluster(tmp_path, brokers=4, settings=settings)


def test_a_broker_dies_with_the_process_that_started_it(settings: Settings, tmp_path: Path) -> None:
    program = f"""
import pathlib, sys, time
from eos_assets.local.broker import KafkaCluster
from eos_assets.local.broker_properties import escape
cluster = KafkaCluster(pathlib.Path({str(tmp_path)!r}))
cluster.start()
print(cluster.nodes[0].process.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        broker = int(parent.stdout.readline())
        assert psutil.pid_exists(broker)
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(broker), 10)
