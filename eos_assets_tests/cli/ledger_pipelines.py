"""A pipeline whose commands need neither Spark nor jars: its ledger is written by the test."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from eos_assets.cli import main
from eos_assets.declare.registry import find_pipelines
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.log.ledger import Genesis, LedgerEntry, Repair

MODULE = """
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic

@pipeline(name="{name}", source=Topic("{name}-source", partitions=2), sink=Topic("{name}-sink", partitions=1))
def plain(records):
    return records
"""


@contextmanager
def declared(connection: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a pipeline in a module that EOS_MODULES names, with its topics."""
    name = f"ledger_{uuid.uuid4().hex[:8]}"
    (folder / f"{name}_module.py").write_text(MODULE.format(name=name))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("EOS_BOOTSTRAP_SERVERS", connection.bootstrap_servers)
    monkeypatch.setenv("EOS_MODULES", f"{name}_module")
    pipeline = find_pipelines([f"{name}_module"])[name]
    topics = [pipeline.source, *pipeline.own_topics()]
    create_topics(topics, connection)
    try:
        yield name
    finally:
        for future in connection.admin.delete_topics([topic.name for topic in topics]).values():
            future.result()


def call(*args: str, status: int = 0) -> Result:
    """Call a command in this process, which is quicker than a process of its own."""
    result = CliRunner().invoke(main, args)
    assert result.exit_code == status, result.output
    return result


def write_ledger(connection: Connection, pipeline: str, *entries: Genesis | LedgerEntry | Repair) -> None:
    producer = Producer(connection.config())
    for entry in entries:
        producer.produce(f"eos.{pipeline}.ledger", entry.to_json(), partition=entry.partition)
    producer.flush()
