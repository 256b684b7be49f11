"""Spark's archives are dropped from a worker's path only if the installed PySpark has the version that is running."""

import sys
from pathlib import Path

import pyspark
import pytest

from eos_assets.worker_path import drop_archives, without_archives

ARCHIVES = ["/spark/python/lib/pyspark.zip", "/spark/python/lib/py4j-0.10.9.9-src.zip", "/spark/jars/spark-core.jar"]


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The path of a worker on a cluster."""
    monkeypatch.setattr(sys, "path", [*ARCHIVES, "/tasks/eos_assets-1.zip", *sys.path])
    monkeypatch.setattr(sys, "path_importer_cache", dict.fromkeys(ARCHIVES))
    return sys.path


def test_archives_are_dropped_and_shipped_code_stays(path: list[str]) -> None:
    drop_archives()
    assert set(ARCHIVES) & {*path, *sys.path_importer_cache} == set()
    assert path[0] == "/tasks/eos_assets-1.zip"
    before = list(path)
    drop_archives()
    assert path == before


def test_they_stay_where_another_version_is_installed(path: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.0")
    drop_archives()
    assert path[:3] == ARCHIVES


def test_they_stay_where_pyspark_is_not_installed(tmp_path: Path) -> None:
    assert without_archives([*ARCHIVES, str(tmp_path)]) == [*ARCHIVES, str(tmp_path)]
