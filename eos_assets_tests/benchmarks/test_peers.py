"""The protocol of the peers, and what is reported when one cannot run or fails."""

import sys
from pathlib import Path

import pytest

from benchmarks.peers import client_settings, java
from benchmarks.peers.java import JARS, find_javac
from benchmarks.peers.process import PeerProcess
from benchmarks.peers.protocol import Arguments
from benchmarks.trial import Trial
from benchmarks.workload import INTEGERS
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.platform.jars import read_lock, version_of
from eos_assets.platform.java import Java

TRIAL = Trial("run_1", INTEGERS, Topic("source"), Topic("sink"))
#: A peer that reports what it was asked, or fails.
SCRIPT = """
import sys
from benchmarks.peers.protocol import serve

def run(arguments, command):
    if arguments["behaviour"] == "raise":
        raise ValueError("no such topic")
    if arguments["behaviour"] == "exit":
        raise SystemExit(3)
    sys.stderr.write(f"{arguments.with_prefix('producer.')} {command}")
    return lambda: None

serve(run)
"""


def peer(behaviour: str, folder: Path) -> PeerProcess:
    arguments = {"behaviour": behaviour, "producer.acks": "all"}
    return PeerProcess("sample", lambda: [sys.executable, "-c", SCRIPT], arguments, folder)


def test_a_peer_gets_its_arguments_and_its_runs(tmp_path: Path) -> None:
    sample = peer("work", tmp_path)
    try:
        sample.start(Connection("host:1"))
        sample.run(TRIAL)
        sample.settle()
        assert [process.pid for process in sample.processes()]
    finally:
        sample.close()
    expected = "{'acks': 'all'} Command(source='source', sink='sink', workload='integers', id='run_1')"
    assert (tmp_path / "sample.log").read_text() == expected


@pytest.mark.parametrize(
    ("behaviour", "problem"), [("raise", "failed ValueError: no such topic"), ("exit", "ended, or did not answer")]
)
def test_a_peer_that_fails_is_reported_with_its_log(behaviour: str, problem: str, tmp_path: Path) -> None:
    sample = peer(behaviour, tmp_path)
    try:
        sample.start(Connection("host:1"))
        with pytest.raises(EosError, match=f"The peer sample {problem}") as error:
            sample.run(TRIAL)
        assert "sample.log" in error.value.remedy
    finally:
        sample.close()


def test_arguments_may_contain_equals_signs() -> None:
    arguments = Arguments.parse(["servers=a:1", "producer.option=x=y"])
    assert arguments["servers"] == "a:1"
    assert arguments.with_prefix("producer.") == {"option": "x=y"}


def test_a_java_without_a_compiler_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "find_java", lambda: Java(tmp_path / "bin" / "java", "17.0.1"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EosError, match="has no javac") as error:
        find_javac()
    assert "openjdk-17-jdk" in error.value.remedy


def test_all_peers_produce_with_the_same_settings() -> None:
    for arguments in (client_settings.java_arguments({}), client_settings.python_arguments()):
        assert {
            f"producer.{name}": value for name, value in client_settings.PRODUCER.items()
        }.items() <= arguments.items()


def test_the_jars_of_the_peers_are_locked() -> None:
    assert {name.partition("/")[0] for name in read_lock(JARS)} == {"flink", "streams"}
    assert version_of("kafka-streams", JARS) in JARS.manifest.read_text()
