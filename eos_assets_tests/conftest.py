"""The real things that the tests stand on: one broker and one Spark session for the whole run."""

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import hypothesis
import pytest
from pyspark.sql import SparkSession

from eos_assets.kafka.connection import Connection
from eos_assets.kafka.topics import Topic, create_topics
from eos_assets.local.broker import KafkaCluster
from eos_assets.local.jars import jars
from eos_assets.local.stack import Stack
from eos_assets.resources.spark import SparkResource
from eos_assets.settings import Settings
from eos_assets_tests.short_lived import QUICKLY_COMPILED

#: A loaded machine is no bug: how long an example takes says nothing.
hypothesis.settings.register_profile("real", deadline=None)
hypothesis.settings.load_profile("real")

MakeTopic = Callable[..., Topic]


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A home of its own for this run, and the project's jars, fetched if they are not there."""
    project = Settings.load()
    jars("broker", project)
    os.environ["EOS_JARS_DIR"] = str(project.jars_dir)
    os.environ["EOS_HOME"] = str(tmp_path_factory.mktemp("home"))
    return Settings.load()


@pytest.fixture(scope="session")
def connection(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """The broker named by EOS_BOOTSTRAP_SERVERS, else one that lives as long as the run."""
    if settings.bootstrap_servers:
        yield Connection.load(settings)
        return
    quick = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",  # 10 s by default
        "log.cleaner.backoff.ms": "500",  # 15 s by default
    }
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), settings=settings, overrides=quick) as cluster:
        yield Connection(cluster.bootstrap_servers)


@pytest.fixture(scope="session")
def spark(settings: Settings) -> Iterator[SparkSession]:
    """The Spark named by EOS_SPARK, else one in this process."""
    session = SparkResource(address=settings.spark or "in-process").spark_session
    yield session
    session.stop()


@pytest.fixture
def make_topic(connection: Connection) -> Iterator[MakeTopic]:
    """Makes topics with names that no other run has, and deletes them afterwards."""
    made: list[str] = []

    def make(**declared: int) -> Topic:
        topic = Topic(f"test-{uuid.uuid4().hex[:12]}", **declared)  # type: ignore[arg-type]
        create_topics([topic], connection)
        made.append(topic.name)
        return topic

    yield make
    if made:
        for future in connection.admin.delete_topics(made).values():
            future.result()


@pytest.fixture
def home(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty EOS_HOME for one test, and no other cluster in sight. What runs there ends with the test."""
    monkeypatch.delenv("EOS_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv("EOS_SPARK", raising=False)
    monkeypatch.setenv("EOS_HOME", str(tmp_path / "home"))
    for name, value in QUICKLY_COMPILED.items():
        monkeypatch.setenv(name, value)
    yield tmp_path / "home"
    Stack(replace(settings, home=tmp_path / "home")).down()
