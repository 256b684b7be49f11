"""Compiles the peers in Java, with their jars, and gives the command that starts one."""

import shutil
import subprocess
from pathlib import Path

from eos_assets.errors import EosError
from eos_assets.platform.folders import make_folder
from eos_assets.platform.jars import JarSet, ensure_jars
from eos_assets.platform.java import find_java
from eos_assets.platform.settings import Settings

JARS = JarSet(Path(__file__).parent)
SOURCES = Path(__file__).parent / "java"
RELEASE = "17"  # the oldest Java that runs everything else
HEAP = "2g"  # as that of Spark's JVM
#: Flink reads fields of the JDK's own classes.
OPENED = ("java.base/java.lang", "java.base/java.util", "java.base/java.time")


def java_command(kind: str, main_class: str, settings: Settings) -> list[str]:
    """The command for a class of `java/`, compiled against the jars of one configuration of ivy.xml."""
    folder = settings.home / "peers"
    jars = ensure_jars(kind, settings.model_copy(update={"jars_dir": folder / "jars"}), jars=JARS)
    classes = make_folder(folder / "classes" / kind)
    compile_java([SOURCES / "Peer.java", SOURCES / f"{main_class}.java"], jars, classes)
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
    classpath = ":".join(str(path) for path in (classes, *jars))
    return [str(find_java().executable), f"-Xmx{HEAP}", *opened, "-cp", classpath, main_class]


def compile_java(sources: list[Path], jars: list[Path], target: Path) -> None:
    options = ["-nowarn", "--release", RELEASE, "-d", str(target), "-cp", ":".join(map(str, jars))]
    command = [find_javac(), *options, *map(str, sources)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise EosError(
            f"{sources[-1].name} could not be compiled: {run.stderr[-2000:]}", "Correct it, and start again."
        )


def find_javac() -> str:
    """The compiler of the Java that runs everything else."""
    java = find_java()
    compiler = shutil.which("javac", path=str(java.home / "bin")) or shutil.which("javac")
    if compiler is None:
        raise EosError(
            f"{java.home} has no javac: it is a Java runtime, not a JDK.",
            "Install a JDK 17 or 21 (Debian, Ubuntu: `apt-get install openjdk-17-jdk-headless`), and let JAVA_HOME "
            "point to it.",
        )
    return compiler
