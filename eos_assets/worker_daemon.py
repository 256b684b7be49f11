"""Spark's daemon of Python workers, with PySpark from the installed packages instead of Spark's archives.

Spark puts pyspark.zip, py4j's zip and a jar on the path of its workers, and before every task a worker reads the tables
of contents of all of them again, in plain Python: a good part of a second of CPU. Where PySpark is installed, as on
every machine that we start workers on, none of them is needed.
"""

import importlib.machinery
import re
import sys

ARCHIVE = re.compile(r".*(pyspark\.zip|py4j-[^/]*\.zip|\.jar)$")


def without_archives(path: list[str]) -> list[str]:
    """The path without Spark's own archives, if PySpark is found on the rest of it."""
    rest = [entry for entry in path if not ARCHIVE.match(entry)]
    return rest if importlib.machinery.PathFinder.find_spec("pyspark", rest) else path


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)
    sys.path_importer_cache.clear()
    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]
