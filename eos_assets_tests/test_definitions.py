"""The code location loads without any server, and workspace.yaml and pyproject.toml both name it."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from dagster._core.workspace.load_target import PyProjectFileTarget, WorkspaceFileTarget

from eos_assets.platform.project import project_root

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


def test_workspace_and_pyproject_name_the_same_definitions() -> None:
    targets = (WorkspaceFileTarget(["workspace.yaml"]), PyProjectFileTarget("pyproject.toml"))
    with contextlib.chdir(ROOT):
        origins = [origin.loadable_target_origin for target in targets for origin in target.create_origins()]
    assert [origin.module_name for origin in origins] == ["eos_assets.definitions"] * 2
    for named in ([], ["--workspace", "workspace.yaml"]):
        command = [sys.executable, "-m", "dagster", "definitions", "validate", *named]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert "Validation successful for code location eos_assets.definitions" in run.stderr + run.stdout
