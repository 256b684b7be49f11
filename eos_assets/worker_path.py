"""The path on which a Spark worker looks for modules: without Spark's archives, where PySpark is installed beside them.

Spark puts pyspark.zip, py4j's zip and a jar on the path of its workers, and before every task a worker reads the tables
of contents of all of them again, in plain Python: a good part of a second of CPU; see docs/decisions/0010.
"""

import importlib.machinery
import importlib.metadata
import re
import sys

ARCHIVE = re.compile(r".*(pyspark\.zip|py4j-[^/]*\.zip|\.jar)$")


def without_archives(path: list[str]) -> list[str]:
    """The path without Spark's own archives, if PySpark is found on the rest of it."""
    rest = [entry for entry in path if not ARCHIVE.match(entry)]
    return rest if importlib.machinery.PathFinder.find_spec("pyspark", rest) else path


def leave_archives() -> None:
    """Takes the archives off this process's path, for the tasks to come. What is imported already stays; so the
    installed PySpark must be of the version that runs, or a module that comes later would not fit."""
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
