"""The code location loads anywhere, and both of its declarations name the same module."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from eos_assets.settings import project_root

ROOT = project_root(Path(__file__).parent)


def test_the_definitions_load_without_java_and_without_a_broker(tmp_path: Path) -> None:
    program = (
        "import dagster as dg; from eos_assets.definitions import defs; dg.Definitions.validate_loadable(defs); "
        "print(*sorted(key.to_user_string() for key in defs.resolve_all_asset_keys()))"
    )
    env = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": "", "EOS_HOME": str(tmp_path / "home")}
    run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert {"datasource", "datasink"} <= set(run.stdout.split())
    assert not (tmp_path / "home").exists(), "loading starts nothing"


def test_workspace_and_pyproject_name_the_same_module() -> None:
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (entry,) = workspace["load_from"]
    assert entry["python_module"] == project["tool"]["dg"]["project"]["code_location_target_module"]
