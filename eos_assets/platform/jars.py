"""Fetches the jars of ivy.xml once, through the Ivy inside PySpark, and believes only what jars.lock says.

The lock names every jar with its SHA-256, so a half-finished fetch, a damaged file and a mirror that serves
something else are one and the same case: the folder does not match, and it is fetched again, whole.
"""

import hashlib
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from eos_assets.errors import EosError
from eos_assets.platform.folders import clear_disk_errors, exclusive, make_folder
from eos_assets.platform.java import find_java
from eos_assets.platform.settings import Settings

MANIFEST = Path(__file__).with_name("ivy.xml")
LOCK = Path(__file__).with_name("jars.lock")

#: Called with the number of jars fetched so far.
Progress = Callable[[int], None]


def locked() -> dict[str, str]:
    """Path below the jars folder → SHA-256, for every jar."""
    lines = LOCK.read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def version_of(artifact: str) -> str:
    """The locked version of one artifact: `version_of("kafka_2.13")` is the broker's version."""
    for name in locked():
        match = re.fullmatch(rf"{re.escape(artifact)}-(\d.*)\.jar", Path(name).name)
        if match:
            return match.group(1)
    raise KeyError(artifact)


def jars(kind: str, settings: Settings, progress: Progress | None = None) -> list[Path]:
    """The jars of one kind, `broker` or `spark`, present and undamaged."""
    if damaged(settings.jars_dir):
        fetch(settings, progress)
    return sorted(settings.jars_dir / name for name in locked() if name.startswith(f"{kind}/"))


def damaged(folder: Path) -> list[str]:
    """The locked jars that are missing from the folder or differ from the lock."""
    return [name for name, digest in locked().items() if sha256(folder / name) != digest]


def sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def fetch(settings: Settings, progress: Progress | None = None) -> None:
    """Replaces the folders of our jars by complete ones, or leaves them as they were and says why."""
    folder = settings.jars_dir
    make_folder(folder.parent)
    with exclusive(folder.parent / f".{folder.name}.lock", wait=True, busy="The jars are being fetched"):
        if not damaged(folder):  # another process fetched them while we waited
            return
        prefix = f".{folder.name}.eos-fetch-"
        for leftover in folder.parent.glob(f"{prefix}*"):  # of a fetch that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        with clear_disk_errors(folder), tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as draft:
            said = retrieve(Path(draft), settings.ivy_settings, progress)
            wrong = damaged(Path(draft) / "jars")
            if wrong:
                raise EosError(why_not(wrong, said), remedy(settings.ivy_settings))
            install(Path(draft) / "jars", folder)


def install(draft: Path, folder: Path) -> None:
    """Moves the jars to where they belong. What else a user keeps in that folder stays; if we are killed here, the
    checksums tell."""
    make_folder(folder)
    for kind in sorted({name.partition("/")[0] for name in locked()}):
        if (folder / kind).exists():
            shutil.rmtree(folder / kind)
        shutil.move(draft / kind, folder / kind)


def retrieve(draft: Path, ivy_settings: Path | None, progress: Progress | None) -> str:
    """Runs Ivy with a cache of its own, so that nothing damaged is ever served again. Returns what it said."""
    if ivy_settings and not ivy_settings.is_file():
        raise EosError(
            f"EOS_IVY_SETTINGS={ivy_settings} is not a file.", "Point it to an Ivy settings file, or unset it."
        )
    command = [str(find_java().executable), f"-Divy.default.ivy.user.dir={draft}", "-jar", str(ivy_jar())]
    command += ["-ivy", str(MANIFEST), "-cache", str(draft / "cache"), "-types", "jar", "bundle"]
    command += ["-retrieve", str(draft / "jars" / "[conf]" / "[artifact]-[revision].[ext]")]
    command += ["-settings", str(ivy_settings)] if ivy_settings else []
    done, said = 0, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=draft) as ivy:
        assert ivy.stdout is not None
        try:
            for line in ivy.stdout:
                said.append(line)
                if "[SUCCESSFUL ]" in line:
                    done += 1
                    if progress:
                        progress(done)
        except BaseException:
            ivy.kill()
            raise
    return "".join(said)


def why_not(wrong: list[str], said: str) -> str:
    if "No space left on device" in said:
        return "The jars could not be fetched: the disk is full."
    causes = [
        line.strip()
        for line in said.splitlines()
        if re.search(r"ERRORS|not found|FAILED|Exception|refused|error", line)
    ]
    shown = "\n  ".join(dict.fromkeys(causes[:6])) or said[-500:]
    return f"{len(wrong)} of {len(locked())} jars could not be fetched ({wrong[0]} …). Ivy said:\n  {shown}"


def remedy(ivy_settings: Path | None) -> str:
    if ivy_settings:
        return f"Check the repositories named in {ivy_settings}."
    return (
        "Check the network. Behind a mirror set EOS_IVY_SETTINGS to an Ivy settings file; behind a proxy set "
        'JAVA_TOOL_OPTIONS="-Dhttps.proxyHost=… -Dhttps.proxyPort=…".'
    )


def ivy_jar() -> Path:
    return next((spark_home() / "jars").glob("ivy-*.jar"))


def spark_home() -> Path:
    """PySpark's folder, which is a whole Spark. Found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    origin = spec.origin if spec else None
    assert origin is not None
    return Path(origin).parent


def write_lock() -> None:
    """Writes jars.lock anew from ivy.xml: for whoever changes a version (`make lock`)."""
    with tempfile.TemporaryDirectory() as draft:
        said = retrieve(Path(draft), Settings.load().ivy_settings, None)
        found = sorted((Path(draft) / "jars").glob("*/*.jar"))
        if not found:
            raise EosError(why_not(["ivy.xml"], said), remedy(None))
        LOCK.write_text("".join(f"{sha256(jar)}  {jar.parent.name}/{jar.name}\n" for jar in found))
