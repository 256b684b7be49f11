"""compose.yaml as the tests read it."""

import re
from pathlib import Path
from typing import Any

import yaml

from eos_assets.platform.project import project_root

ROOT = project_root(Path(__file__).parent)
COMPOSE = ROOT / "docker" / "compose.yaml"


def services() -> dict[str, dict[str, Any]]:
    """The services of compose.yaml, with all variables at their defaults."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", COMPOSE.read_text())
    declared: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
    return declared
