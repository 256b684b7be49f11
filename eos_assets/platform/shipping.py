"""How the code reaches executors elsewhere: this package in, an archive of it with every session out.

Tasks are functions of this package, and Python sends a function as its name: the executors must be able to import it.
What they need besides, the Python of EOS_SPARK_PYTHON must have: pyarrow, numpy and confluent-kafka (docs/scale.md).
"""

import functools
import hashlib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import eos_assets
from eos_assets.declare import registry
from eos_assets.platform.folders import clear_disk_errors, make_folder
from eos_assets.platform.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A fixed date makes the archive a function of its content.
EPOCH = (1980, 1, 1, 0, 0, 0)


def ship(session: "SparkSession", address: str, settings: Settings, *, package: bool = True) -> None:
    """Gives a session elsewhere the files of EOS_PY_FILES and this package, unless it is there already."""
    if address.startswith("local"):
        return  # its workers are children of ours
    if address.startswith("sc://"):
        lend_functions()
    if not settings.py_files:
        send_modules()
    files = [str(path) for path in settings.py_files]
    if package:
        files.insert(0, str(archive(settings)))
    if not files:
        return
    if address.startswith("sc://"):
        session.addArtifacts(*files, pyfile=True)
        return
    for file in files:
        session.sparkContext.addPyFile(file)


def send_modules() -> None:
    """Functions of the modules that were named with --module travel as code, not as a name: nobody has them there."""
    from pyspark.cloudpickle.cloudpickle import register_pickle_by_value

    for module in registry.named:
        register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def lend_functions() -> None:
    """Lets Spark Connect use functions (`@udf`, `@pandas_udf`) that a module declared before there was a session: until
    then PySpark takes every one for one of a classic session."""
    from pyspark.sql.connect.udf import UserDefinedFunction as RemoteFunction
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.sql.utils import is_remote

    classic = UserDefinedFunction.__call__
    if getattr(classic, "lent", False):
        return

    @functools.wraps(classic)
    def call(self: UserDefinedFunction, *columns: Any, **named: Any) -> Any:
        if not is_remote():
            return classic(self, *columns, **named)
        about = (self.func, self._returnType, self._name, self.evalType, self.deterministic)
        return RemoteFunction(*about)(*columns, **named)

    call.lent = True  # type: ignore[attr-defined]
    UserDefinedFunction.__call__ = call  # type: ignore[method-assign]


def archive(settings: Settings) -> Path:
    """A zip of this package below EOS_HOME, named by its content, so that each version is made once."""
    package = Path(eos_assets.__file__).parent
    contents = {
        str(path.relative_to(package.parent)): path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    made = make_folder(settings.home / "shipped") / f"eos_assets-{digest.hexdigest()[:12]}.zip"
    if not made.exists():
        draft = made.with_suffix(f".{id(contents)}.draft")
        with clear_disk_errors(draft), zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, content in contents.items():
                zipped.writestr(zipfile.ZipInfo(name, EPOCH), content)
        draft.replace(made)
    return made
