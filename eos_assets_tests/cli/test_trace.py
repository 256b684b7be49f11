"""`eos preview` and `eos trace` without topics or records: the error names the remedy."""

import shlex
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from eos_assets.kafka.connection import Connection
from eos_assets_tests.cli.command import eos

MODULE = """
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic

@pipeline(name="{name}", source=Topic("{name}-source", partitions=1), sink=Topic("{name}-sink", partitions=1))
def plain(records):
    return records
"""


def test_missing_or_empty_topics_and_offsets_past_the_end_are_reported(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"trace_{uuid.uuid4().hex[:8]}"
    source, sink, module = f"{name}-source", f"{name}-sink", ("--module", "eos_test_trace")
    (tmp_path / "eos_test_trace.py").write_text(MODULE.format(name=name))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("EOS_BOOTSTRAP_SERVERS", connection.bootstrap_servers)
    create = f"eos topics create --pipeline {name} --module eos_test_trace"
    for command in (("preview", name), ("trace", sink, "0", "0"), ("trace", "--source", source, "0", "0")):
        assert f"Create them with `{create}`." in eos(*command, *module, status=1).stderr
    eos(*shlex.split(create)[1:])
    try:
        assert f"{source}/0 is empty." in eos("trace", "--source", source, "0", "0", *module, status=1).stderr
        assert f"{sink}/0/1: the partition is empty" in eos("trace", sink, "0", "1", *module, status=1).stdout
        producer = Producer(connection.config())
        producer.produce(sink, b"foreign", partition=0)
        producer.flush()
        assert f"{sink}/0/1: the partition ends at 1" in eos("trace", sink, "0", "1", *module, status=1).stdout
        assert "no committed map names it" in eos("trace", sink, "0", "0", *module, status=1).stdout
    finally:
        created = [topic for topic in connection.metadata().topics if name in topic]
        for future in connection.admin.delete_topics(created).values():
            future.result()
