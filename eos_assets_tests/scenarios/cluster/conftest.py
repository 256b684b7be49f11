"""A Spark cluster whose executors have never heard of this project, and three brokers."""

import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from eos_assets.local.broker import KafkaCluster
from eos_assets.local.spark_cluster import SparkCluster
from eos_assets.platform.settings import Settings


@pytest.fixture(scope="package")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the packages that this one has, but for the project itself: that is installed through a .pth file
    in the folder of the packages, and such files work only in a Python's own folder."""
    folder = tmp_path_factory.mktemp("bare")
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    (own,) = folder.glob("lib/python3*/site-packages")
    (own / "packages.pth").write_text(sysconfig.get_path("purelib"))
    python = folder / "bin" / "python"
    missing = subprocess.run([python, "-c", "import eos_assets"], cwd=folder, capture_output=True, text=True)
    assert "No module named 'eos_assets'" in missing.stderr
    subprocess.run([python, "-c", "import confluent_kafka, pyarrow, numpy, pyspark"], cwd=folder, check=True)
    return python


@pytest.fixture(scope="package")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark-cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def brokers(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("three-brokers"), brokers=3, settings=settings) as cluster:
        yield cluster
