"""Finds the Java that Kafka and Spark run on, and refuses a version that they do not support."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eos_assets.errors import EosError

#: Kafka 4 needs 17 or newer. Spark 4.2 is tested on 17; 21 is the other version that Spark supports.
SUPPORTED = (17, 21)
REMEDY = (
    "Install Java 17 or 21 (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`) and let JAVA_HOME point to it."
)


@dataclass(frozen=True)
class Java:
    """A Java that is supported: its executable and its version."""

    executable: Path
    version: str

    @property
    def home(self) -> Path:
        return self.executable.resolve().parent.parent


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java of JAVA_HOME, else of the PATH: the order in which Spark searches."""
    home = environ.get("JAVA_HOME")
    if home:
        place, path = f"JAVA_HOME={home}", str(Path(home) / "bin")
    else:
        place, path = "the PATH", environ.get("PATH", "")
    executable = shutil.which("java", path=path)
    if executable is None:
        raise EosError(f"No Java in {place}.", REMEDY)
    report = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "([^"]+)"', report.stderr)
    if report.returncode != 0 or match is None:
        output = (report.stderr or report.stdout).strip() or "nothing"
        raise EosError(f"`{executable} -version` failed and printed: {output}", REMEDY)
    version = match.group(1)
    if major(version) not in SUPPORTED:
        raise EosError(f"Java {version} ({executable}) cannot run Kafka and Spark together.", REMEDY)
    return Java(Path(executable), version)


def major(version: str) -> int:
    """17 for "17.0.15", 8 for "1.8.0_392"."""
    numbers = [int(n) for n in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
