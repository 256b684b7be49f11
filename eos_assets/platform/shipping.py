"""Sends the code of this package, and of EOS_PY_FILES, to the executors of a Spark on other machines.

Tasks are functions of this package, and Python pickles a function as its name: the executors must be able to import it.
What else they need is installed in the Python of EOS_SPARK_PYTHON: pyarrow, numpy, confluent-kafka (docs/scale.md).
"""

import functools
import hashlib
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eos_assets.platform.folders import explain_disk_errors, make_folder
from eos_assets.platform.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A fixed date, so that the archive depends on its content only.
EPOCH = (1980, 1, 1, 0, 0, 0)
PACKAGE = "eos_assets"


def ship(session: "SparkSession", address: str, settings: Settings, *, package: bool = True) -> None:
    """Send the code to a session on other machines; the package only if it is not installed there."""
    if address.startswith("local"):
        return  # its workers are children of this process
    if address.startswith("sc://"):
        allow_udfs_on_connect()
    if not settings.py_files:
        pickle_by_value(settings.modules)
    files = [str(path) for path in settings.py_files]
    if package:
        files.insert(0, str(archive_package(settings)))
    if not files:
        return
    if address.startswith("sc://"):
        session.addArtifacts(*files, pyfile=True)
        return
    for file in files:
        session.sparkContext.addPyFile(file)


def pickle_by_value(modules: Iterable[str]) -> None:
    """Send functions of the user's modules as code, because executors cannot import these modules."""
    from pyspark.cloudpickle.cloudpickle import register_pickle_by_value

    for name in modules:
        if name in sys.modules and name.partition(".")[0] != PACKAGE:
            register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]


def allow_udfs_on_connect() -> None:
    """Let Spark Connect use functions (`@udf`, `@pandas_udf`) that a module declared before there was a session:
    PySpark takes those for functions of a classic session."""
    from pyspark.sql.connect.udf import UserDefinedFunction as ConnectFunction
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.sql.utils import is_remote

    classic = UserDefinedFunction.__call__
    if getattr(classic, "allows_connect", False):
        return

    @functools.wraps(classic)
    def call(self: UserDefinedFunction, *columns: Any, **named: Any) -> Any:
        if not is_remote():
            return classic(self, *columns, **named)
        definition = (self.func, self._returnType, self._name, self.evalType, self.deterministic)
        return ConnectFunction(*definition)(*columns, **named)

    call.allows_connect = True  # type: ignore[attr-defined]
    UserDefinedFunction.__call__ = call  # type: ignore[method-assign]


def archive_package(settings: Settings) -> Path:
    """A zip of this package below EOS_HOME, named by its content, so that each version is written once."""
    package = Path(__file__).parents[1]
    contents = {
        str(path.relative_to(package.parent)): path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    archive = make_folder(settings.home / "shipped") / f"eos_assets-{digest.hexdigest()[:12]}.zip"
    if not archive.exists():
        draft = archive.with_suffix(f".{id(contents)}.draft")
        with explain_disk_errors(draft), zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, content in contents.items():
                zipped.writestr(zipfile.ZipInfo(name, EPOCH), content)
        draft.replace(archive)
    return archive
