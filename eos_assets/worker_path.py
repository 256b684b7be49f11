"""Removes Spark's own archives from the module path of a worker that has PySpark installed.

Spark puts pyspark.zip, py4j's zip and a jar on the path, and before every task a worker reads their tables of contents
again in Python, which takes much of a second of CPU (docs/decisions/0010).
"""

import importlib.machinery
import importlib.metadata
import re
import sys

ARCHIVE = re.compile(r".*(pyspark\.zip|py4j-[^/]*\.zip|\.jar)$")


def without_archives(path: list[str]) -> list[str]:
    """The path without Spark's archives, if PySpark can be imported from the rest of it."""
    rest = [entry for entry in path if not ARCHIVE.match(entry)]
    return rest if importlib.machinery.PathFinder.find_spec("pyspark", rest) else path


def drop_archives() -> None:
    """Remove the archives from the path of this process, for its later tasks.

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
