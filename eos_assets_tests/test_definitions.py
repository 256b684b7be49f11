"""The code location loads without any server, and workspace.yaml and pyproject.toml both name it."""

import contextlib
import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.workspace.load_target import PyProjectFileTarget, WorkspaceFileTarget

from eos_assets import defs
from eos_assets.platform.project import project_root

ROOT = project_root(Path(__file__).parent)


#: Prints the assets and jobs of the code location, and the options of a run.
PROGRAM = """
import json, dagster as dg
from eos_assets.definitions import defs
from eos_assets.orchestration.assets.transactional_topic import RunConfig
dg.Definitions.validate_loadable(defs)
assets = sorted(key.to_user_string() for key in defs.resolve_all_asset_keys())
jobs, options = defs.get_repository_def().job_names, list(RunConfig.model_fields)
print(json.dumps({"assets": assets, "jobs": jobs, "options": options}))
"""
OWN_PIPELINE = """
import eos_assets as eos

@eos.pipeline(source="orders-in", sink="orders-out")
def orders(records):
    return records.select("key", "value", "origin")
"""


def load(folder: Path, **env: str) -> dict[str, Any]:
    """What the code location shows in a new process with this working directory."""
    command = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(command, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    shown: dict[str, Any] = json.loads(run.stdout)
    return shown


def test_the_definitions_load_without_java_and_without_a_broker(tmp_path: Path) -> None:
    shown = load(ROOT, PATH=str(tmp_path), JAVA_HOME="", EOS_HOME=str(tmp_path / "home"))
    assert {"datasource", "datasink", "experiment"} <= set(shown["assets"])
    assert {"squares_job", "squares_audit_job", "squares_checks", "experiment_job", "fill_source"} <= set(shown["jobs"])
    assert not (tmp_path / "home").exists(), "loading starts nothing"


def test_the_platform_of_a_user_shows_no_experiment_and_injects_no_faults(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(OWN_PIPELINE)
    shown = load(tmp_path, EOS_MODULES="shop", PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    assert {"orders-in", "orders-out"} <= set(shown["assets"])
    assert not {"experiment", "datasource", "datasink"} & set(shown["assets"])
    assert {name for name in shown["jobs"] if not name.startswith("__")} == {
        "orders_job",
        "orders_audit_job",
        "orders_checks",
        "orders_dead_letters",
        "orders_repair",
    }
    assert shown["options"] == ["max_records", "upto", "max_attempts"]


def test_dg_finds_definitions_in_every_module_of_defs() -> None:
    names = [module.name for module in pkgutil.iter_modules(defs.__path__)]
    assert names == ["experiment", "pipelines", "resources"]
    modules = [importlib.import_module(f"{defs.__name__}.{name}") for name in names]
    assert all(isinstance(module.defs, dg.Definitions) for module in modules)


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
