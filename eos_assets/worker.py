"""Prepares a Python worker of Spark for the tasks of this project: its module path and its memory."""

import ctypes
import importlib.machinery
import importlib.metadata
import re
import sys

ARCHIVE = re.compile(r".*(pyspark\.zip|py4j-[^/]*\.zip|\.jar)$")
#: The option of glibc's `mallopt` that limits the number of heaps.
M_ARENA_MAX = -8


def prepare_worker() -> None:
    """What each task does first. Only its first call in a worker changes something."""
    drop_archives()
    share_one_heap()


def without_archives(path: list[str]) -> list[str]:
    """The path without Spark's archives, if PySpark can be imported from the rest of it."""
    rest = [entry for entry in path if not ARCHIVE.match(entry)]
    return rest if importlib.machinery.PathFinder.find_spec("pyspark", rest) else path


def drop_archives() -> None:
    """Remove Spark's own archives from the path of this process, for its later tasks.

    Spark puts pyspark.zip, py4j's zip and a jar on the path, and before every task a worker reads their tables of
    contents again in Python, which takes much of a second of CPU (docs/decisions/0010).

    Modules that are imported already stay, and later ones come from the installed PySpark. So it must have the version
    that is running.
    """
    archives = {entry for entry in sys.path if ARCHIVE.match(entry)}
    running = sys.modules.get("pyspark")
    if not archives or (running and running.__version__ != installed_version()):
        return
    sys.path[:] = without_archives(sys.path)
    for entry in archives - set(sys.path):
        sys.path_importer_cache.pop(entry, None)


def installed_version() -> str | None:
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return None


def share_one_heap() -> None:
    """Let all threads of this process allocate from one heap, where the C library is glibc.

    By default glibc gives threads heaps of their own. A client allocates a record in one thread and frees it in
    another, so each heap grows to what its busiest moment needed: with records of 1 KB a worker took twice the memory.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(M_ARENA_MAX, 1)
