"""`eos transactions` and `eos plan`: who holds back a topic, and ending it."""

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets_tests.cli.command import eos
from eos_assets_tests.plugin import MakeTopic


def test_a_transaction_of_another_producer_is_listed_and_aborted(
    connection: Connection, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(partitions=1).name
    monkeypatch.setenv("EOS_BOOTSTRAP_SERVERS", connection.bootstrap_servers)
    chosen = ("--topic", topic)
    assert eos("transactions", "list", *chosen).stdout == f"No transaction is open in {topic}.\n"
    other = Producer(connection.config(transactional_id=f"other/{topic}"))
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(topic, b"open")
    other.flush()

    (listed,) = json.loads(eos("transactions", "list", *chosen, "--json").stdout)
    assert (listed["topic"], listed["partition"], listed["offset"]) == (topic, 0, 0)
    assert (listed["transactional_id"], listed["state"], listed["orphan"]) == (f"other/{topic}", "Ongoing", False)

    producer = str(listed["producer_id"])
    eos("transactions", "abort", producer, *chosen, status=1)  # it is not confirmed
    assert bounds(connection, topic)[0].stable == 0
    run = eos("transactions", "abort", producer, *chosen, "--yes")
    assert f"other/{topic}" in run.stdout
    assert run.stdout.endswith(f"The transaction of producer {producer} is aborted.\n")
    assert bounds(connection, topic)[0].stable == bounds(connection, topic)[0].high
    with pytest.raises(KafkaException, match="fenced"):
        other.commit_transaction(30)
    refused = eos("transactions", "abort", producer, *chosen, "--yes", status=1)
    assert f"Producer {producer} has no open transaction in {topic}." in refused.stderr


@pytest.mark.parametrize("command", [("list",), ("abort", "7", "--yes")], ids=["list", "abort"])
def test_without_kafka_python_the_command_names_the_extra(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kafka.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    run = eos("transactions", *command, "--topic", "any", status=1)
    assert re.search(r"remedy: .*pip install 'eos-assets\[transactions\]'", run.stderr)
