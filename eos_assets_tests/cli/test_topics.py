"""`eos topics create` and `eos fill`: the exit status and the last line."""

import re
from pathlib import Path

import pytest

from eos_assets.kafka.connection import Connection
from eos_assets_tests.cli.command import eos
from eos_assets_tests.plugin import MakeTopic

MODULE = """
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic

@pipeline(source=Topic("{source}", partitions=3), sink=Topic("{source}-sink"))
def differing(records):
    return records
"""


def test_a_topic_that_differs_is_named_by_create(
    connection: Connection, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(partitions=2).name
    (tmp_path / "eos_test_differing.py").write_text(MODULE.format(source=topic))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("EOS_BOOTSTRAP_SERVERS", connection.bootstrap_servers)
    run = eos("topics", "create", topic, "--module", "eos_test_differing", status=1)
    assert "partitions is 2, declared 3" in run.stdout
    assert f"not as declared, and were left unchanged: {topic}." in run.stderr
    assert len(connection.partitions(topic)) == 2


def test_a_fill_ends_with_its_speed(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2).name
    run = eos("fill", topic, "--count", "1000", EOS_BOOTSTRAP_SERVERS=connection.bootstrap_servers)
    last = run.stdout.splitlines()[-1]
    expected = rf"Wrote 1000 records to {topic}: the integers 0 to 999, in [\d.]+ s, [\d,]+ records/s\."
    assert re.fullmatch(expected, last), last


@pytest.mark.parametrize("rate", ["nan", "inf", "0", "-1"])
def test_an_invalid_rate_is_refused(rate: str) -> None:
    assert "Invalid value for '--rate'" in eos("fill", "t", "--count", "1", "--rate", rate, status=2).stderr
