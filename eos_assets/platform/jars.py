"""Fetches the jars of an ivy.xml through the Ivy inside PySpark, and accepts only those that match its jars.lock.

The lock names every jar with its SHA-256. So an interrupted fetch, a damaged file and a wrong file of a mirror have the
same remedy: the folder does not match the lock, and all jars are fetched again.
"""

import hashlib
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eos_assets.errors import EosError
from eos_assets.platform.folders import explain_disk_errors, hold_lock, make_folder
from eos_assets.platform.java import find_java
from eos_assets.platform.settings import Settings

#: Called with the number of jars that were fetched so far.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class JarSet:
    """Jars that one ivy.xml names and that are fetched together, in a folder for each of its configurations."""

    #: Where ivy.xml and jars.lock are.
    folder: Path

    @property
    def manifest(self) -> Path:
        return self.folder / "ivy.xml"

    @property
    def lock(self) -> Path:
        return self.folder / "jars.lock"


#: The jars of the broker and of Spark.
SERVERS = JarSet(Path(__file__).parent)


def read_lock(jars: JarSet = SERVERS) -> dict[str, str]:
    """Path below the jars folder → SHA-256, for every jar."""
    lines = jars.lock.read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def version_of(artifact: str, jars: JarSet = SERVERS) -> str:
    """The locked version of an artifact: `version_of("kafka_2.13")` is the broker's version."""
    for name in read_lock(jars):
        match = re.fullmatch(rf"{re.escape(artifact)}-(\d.*)\.jar", Path(name).name)
        if match:
            return match.group(1)
    raise KeyError(artifact)


def ensure_jars(kind: str, settings: Settings, progress: Progress | None = None, jars: JarSet = SERVERS) -> list[Path]:
    """The jars of one kind, such as `broker` or `spark`; all are fetched if any is missing or damaged."""
    if find_damaged(settings.jars_dir, jars):
        fetch(settings, progress, jars)
    return sorted(settings.jars_dir / name for name in read_lock(jars) if name.startswith(f"{kind}/"))


def find_damaged(folder: Path, jars: JarSet = SERVERS) -> list[str]:
    """The locked jars that are missing from a folder or differ from the lock."""
    return [name for name, digest in read_lock(jars).items() if sha256(folder / name) != digest]


def sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def fetch(settings: Settings, progress: Progress | None = None, jars: JarSet = SERVERS) -> None:
    """Replace the jars by a complete set. If that fails, leave them as they were and raise the cause."""
    folder = settings.jars_dir
    make_folder(folder.parent)
    with hold_lock(folder.parent / f".{folder.name}.lock", wait=True, busy="The jars are being fetched"):
        if not find_damaged(folder, jars):  # another process fetched them while this one waited
            return
        prefix = f".{folder.name}.eos-fetch-"
        for leftover in folder.parent.glob(f"{prefix}*"):  # of a fetch that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        with explain_disk_errors(folder), tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as draft:
            output = run_ivy(Path(draft), settings.ivy_settings, progress, jars)
            missing = find_damaged(Path(draft) / "jars", jars)
            if missing:
                raise EosError(explain_failure(missing, output, jars), remedy(settings.ivy_settings))
            install(Path(draft) / "jars", folder, jars)


def install(draft: Path, folder: Path, jars: JarSet = SERVERS) -> None:
    """Move fetched jars into their folder, which may hold other files. A kill in between leaves a folder that does not
    match the lock."""
    make_folder(folder)
    for kind in sorted({name.partition("/")[0] for name in read_lock(jars)}):
        if (folder / kind).exists():
            shutil.rmtree(folder / kind)
        shutil.move(draft / kind, folder / kind)


def run_ivy(draft: Path, ivy_settings: Path | None, progress: Progress | None, jars: JarSet = SERVERS) -> str:
    """Fetch into a draft folder with a cache of its own, so that no damaged jar is reused. Return Ivy's output."""
    if ivy_settings and not ivy_settings.is_file():
        raise EosError(
            f"EOS_IVY_SETTINGS={ivy_settings} is not a file.", "Point it to an Ivy settings file, or unset it."
        )
    command = [str(find_java().executable), f"-Divy.default.ivy.user.dir={draft}", "-jar", str(ivy_jar())]
    command += ["-ivy", str(jars.manifest), "-cache", str(draft / "cache"), "-types", "jar", "bundle"]
    command += ["-retrieve", str(draft / "jars" / "[conf]" / "[artifact]-[revision].[ext]")]
    command += ["-settings", str(ivy_settings)] if ivy_settings else []
    fetched, output = 0, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=draft) as ivy:
        assert ivy.stdout is not None
        try:
            for line in ivy.stdout:
                output.append(line)
                if "[SUCCESSFUL ]" in line:
                    fetched += 1
                    if progress:
                        progress(fetched)
        except BaseException:
            ivy.kill()
            raise
    return "".join(output)


def explain_failure(missing: list[str], output: str, jars: JarSet = SERVERS) -> str:
    if "No space left on device" in output:
        return "The jars could not be fetched: the disk is full."
    causes = [
        line.strip()
        for line in output.splitlines()
        if re.search(r"ERRORS|not found|FAILED|Exception|refused|error", line)
    ]
    shown = "\n  ".join(dict.fromkeys(causes[:6])) or output[-500:]
    count = len(read_lock(jars))
    return f"{len(missing)} of {count} jars could not be fetched ({missing[0]} …). Ivy reported:\n  {shown}"


def remedy(ivy_settings: Path | None) -> str:
    if ivy_settings:
        return f"Check the repositories that {ivy_settings} names."
    return (
        "Check the network. With a mirror set EOS_IVY_SETTINGS to an Ivy settings file; with a proxy set "
        'JAVA_TOOL_OPTIONS="-Dhttps.proxyHost=… -Dhttps.proxyPort=…".'
    )


def ivy_jar() -> Path:
    return next((spark_home() / "jars").glob("ivy-*.jar"))


def spark_home() -> Path:
    """PySpark's folder, which is a complete Spark; found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    origin = spec.origin if spec else None
    assert origin is not None
    return Path(origin).parent


def write_lock(jars: JarSet = SERVERS) -> None:
    """Write jars.lock from ivy.xml, after a version was changed (`make lock`)."""
    with tempfile.TemporaryDirectory() as draft:
        output = run_ivy(Path(draft), Settings.load().ivy_settings, None, jars)
        fetched = sorted((Path(draft) / "jars").glob("*/*.jar"))
        if not fetched:
            raise EosError(f"No jar of {jars.manifest} could be fetched. Ivy reported:\n{output[-2000:]}", remedy(None))
        jars.lock.write_text("".join(f"{sha256(jar)}  {jar.parent.name}/{jar.name}\n" for jar in fetched))
