"""The virtual environment of Quix Streams, which pins another version of confluent-kafka than this project."""

import hashlib
import subprocess
import sys
from pathlib import Path

from eos_assets.errors import EosError
from eos_assets.platform.settings import Settings

REQUIREMENTS = Path(__file__).with_name("quix.txt")


def quix_python(settings: Settings) -> Path:
    """The Python of the environment, which is created if it is missing or has other packages."""
    folder = settings.home / "peers" / "quix"
    installed, digest = folder / "installed", hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    python = folder / "bin" / "python"
    if installed.is_file() and installed.read_text() == digest:
        return python
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], [*install, "-r", str(REQUIREMENTS)]):
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise EosError(
                f"The packages of {REQUIREMENTS.name} could not be installed: {run.stderr[-1000:]}",
                "Check the network and the settings of pip.",
            )
    installed.write_text(digest)
    return python
