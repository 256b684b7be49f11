"""Finds the Java that the servers run on and refuses one that cannot run them."""

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
    """A usable Java: the executable and its version text."""

    executable: Path
    version: str

    @property
    def home(self) -> Path:
        return self.executable.resolve().parent.parent


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java of JAVA_HOME, else of the PATH: the same order in which Spark looks for it."""
    home = environ.get("JAVA_HOME")
    if home:
        found = shutil.which("java", path=str(Path(home) / "bin"))
        where = f"JAVA_HOME={home}"
    else:
        found = shutil.which("java", path=environ.get("PATH", ""))
        where = "the PATH"
    if found is None:
        raise EosError(f"No Java in {where}.", REMEDY)
    report = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    text = re.search(r'version "([^"]+)"', report.stderr)
    if report.returncode != 0 or text is None:
        said = (report.stderr or report.stdout).strip() or "nothing"
        raise EosError(f"{found} -version does not work; it said: {said}", REMEDY)
    version = text.group(1)
    if major(version) not in SUPPORTED:
        raise EosError(f"Java {version} ({found}) cannot run Kafka and Spark together.", REMEDY)
    return Java(Path(found), version)


def major(version: str) -> int:
    """17 of "17.0.15", 8 of "1.8.0_392"."""
    numbers = [int(n) for n in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
