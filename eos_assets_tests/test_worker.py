"""A worker drops Spark's archives from its path only if the installed PySpark has the version that is running, and its
threads share one heap."""

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from eos_assets.worker import drop_archives, without_archives

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


#: Four threads hold memory at the same time; prints the number of heaps as glibc counts them.
HEAPS = """
import ctypes, sys, threading
from eos_assets.worker import share_one_heap
if sys.argv[1] == "shared":
    share_one_heap()
libc, barrier = ctypes.CDLL(None), threading.Barrier(5)
libc.fdopen.restype, libc.malloc.restype = ctypes.c_void_p, ctypes.c_void_p
def allocate():
    libc.malloc(ctypes.c_size_t(1000))
    barrier.wait(30)
    barrier.wait(30)
threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
barrier.wait(30)
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
barrier.wait(30)
"""


def test_the_threads_of_a_worker_share_one_heap() -> None:
    def heaps(kind: str) -> int:
        command = [sys.executable, "-c", HEAPS, kind]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.count("<heap ")

    assert heaps("default") > 1
    assert heaps("shared") == 1
