"""The fixtures of all tests: one real broker and one Spark session for each test process.

pyproject.toml names this module as a pytest plugin. Fixtures that only one folder uses are in its `conftest.py`.
"""

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import hypothesis
import psutil
import pytest
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling

from eos_assets.declare.topic import Topic
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.local.broker import KafkaCluster
from eos_assets.local.stack import Stack
from eos_assets.platform.cluster import connect
from eos_assets.platform.jars import ensure_jars
from eos_assets.platform.settings import Settings
from eos_assets.platform.spark_session import start_session
from eos_assets_tests.orchestration.platform import Platform
from eos_assets_tests.run.lab import Lab, MakeLab, declare
from eos_assets_tests.short_lived import QUICKLY_COMPILED
from eos_assets_tests.sink.watcher import Watcher

#: The duration of an example depends on the load of the machine, so it has no deadline.
hypothesis.settings.register_profile("real", deadline=None)
hypothesis.settings.load_profile("real")

MakeTopic = Callable[..., Topic]


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Runs all tests of a folder in one process: the scenarios of a folder share their servers."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0].rpartition("/")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    """The scheduler of `--dist loadscope`."""
    return ByFolder(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """An EOS_HOME for this test process, with the project's jars, which are fetched if they are missing."""
    for name, value in QUICKLY_COMPILED.items():
        os.environ.setdefault(name, value)
    project = Settings.load()
    ensure_jars("broker", project)
    os.environ["EOS_JARS_DIR"] = str(project.jars_dir)
    os.environ["EOS_HOME"] = str(tmp_path_factory.mktemp("home"))
    return Settings.load()


#: Other test processes need the cores, too.
FEW_TASKS = "local[2,4]"

#: Ivy settings with an empty mirror: a fetch from it fails.
EMPTY_MIRROR = """\
<ivysettings>
  <settings defaultResolver="mirror"/>
  <resolvers>
    <filesystem name="mirror"><artifact pattern="{folder}/[artifact]-[revision].[ext]"/></filesystem>
  </resolvers>
</ivysettings>
"""


@pytest.fixture
def copied(settings: Settings, tmp_path: Path) -> Settings:
    """A copy of the jars that a test may damage, and an empty mirror."""
    shutil.copytree(settings.jars_dir, tmp_path / "jars", copy_function=os.link)
    (tmp_path / "mirror.xml").write_text(EMPTY_MIRROR.format(folder=tmp_path / "nothing"))
    return settings.model_copy(update={"jars_dir": tmp_path / "jars", "ivy_settings": tmp_path / "mirror.xml"})


@pytest.fixture(scope="session")
def connection(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """The broker of EOS_BOOTSTRAP_SERVERS, else one that lives as long as this process."""
    if settings.bootstrap_servers:
        yield connect(settings)
        return
    quick = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",  # 10 s by default
        "log.cleaner.backoff.ms": "500",  # 15 s by default
    }
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), settings=settings, overrides=quick) as cluster:
        yield Connection(cluster.bootstrap_servers)


@pytest.fixture(scope="session")
def spark(settings: Settings) -> Iterator[SparkSession]:
    """The Spark of EOS_SPARK, else one in this process."""
    session = start_session(settings, settings.spark or FEW_TASKS)
    yield session
    session.stop()


@pytest.fixture
def make_topic(connection: Connection) -> Iterator[MakeTopic]:
    """Creates topics with unique names, and deletes them afterwards."""
    created: list[str] = []

    def make(**declared: int) -> Topic:
        topic = Topic(f"test-{uuid.uuid4().hex[:12]}", **declared)  # type: ignore[arg-type]
        create_topics([topic], connection)
        created.append(topic.name)
        return topic

    yield make
    if created:
        for future in connection.admin.delete_topics(created).values():
            future.result()


@pytest.fixture
def home(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty EOS_HOME for one test, without any other cluster. Its servers are stopped after the test."""
    monkeypatch.delenv("EOS_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv("EOS_SPARK", raising=False)
    monkeypatch.setenv("EOS_HOME", str(tmp_path / "home"))
    for name, value in QUICKLY_COMPILED.items():
        monkeypatch.setenv(name, value)
    yield tmp_path / "home"
    Stack(settings.model_copy(update={"home": tmp_path / "home"})).down()


@pytest.fixture
def make_lab(spark: SparkSession, connection: Connection, request: pytest.FixtureRequest) -> Iterator[MakeLab]:
    """Declares a pipeline and creates its topics, which are deleted afterwards. `both_kinds` chooses the kind."""
    labs: list[Lab] = []
    default_kind = getattr(request, "param", "frames")

    def make(transform: Callable[[Any], Any] | None = None, *, kind: str = default_kind, **declared: Any) -> Lab:
        lab = Lab(spark, connection, declared.pop("pipeline", None) or declare(transform, kind=kind, **declared))
        lab.create()
        lab.watcher = Watcher(connection.bootstrap_servers, lab.sink, len(connection.partitions(lab.sink)))
        labs.append(lab)
        return lab

    yield make
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if child.status() == psutil.STATUS_STOPPED:
                child.resume()  # left by a failed test, it would block a Spark task for ever
    for lab in labs:
        if lab.watcher:
            lab.watcher.stop()
    names = sorted({name for lab in labs for name in lab.created})
    existing = connection.metadata().topics
    if left := [name for name in names if name in existing]:
        for future in connection.admin.delete_topics(left).values():
            future.result()


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """The squares, in three partitions."""
    return make_lab()


@pytest.fixture
def platform(lab: Lab, tmp_path: Path) -> Iterator[Platform]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Platform(lab, instance, str(tmp_path / "lake"))
