"""A user's own project: its platform shows its pipelines and no others, and keeps its ports."""

import json
import os
from pathlib import Path

import pytest

from eos_assets.platform.project import project_root
from eos_assets_tests.cli.command import eos
from eos_assets_tests.scenarios.served.graphql import Graphql

MODULE = """
import eos_assets as eos

@eos.pipeline(source="{name}-in", sink="{name}-out")
def {name}(records):
    return records.select("key", "value", "origin")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a package with one pipeline, which pyproject.toml names, and a module beside it."""
    folder = tmp_path / "project"
    (folder / "shop").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[tool.eos]\nmodules = ["shop"]\n')
    (folder / "shop" / "__init__.py").write_text("")
    (folder / "shop" / "orders.py").write_text(MODULE.format(name="orders"))
    (folder / "later.py").write_text(MODULE.format(name="refunds"))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(project_root(Path(__file__).parent)), prepend=os.pathsep)
    return folder


def topics(command: str, *options: str) -> set[str]:
    """The topics that a command of `eos topics` lists."""
    return {word for word in eos("topics", command, *options).stdout.split() if word.endswith(("-in", "-out"))}


@pytest.mark.timeout(600)
def test_a_users_platform_shows_the_users_pipelines(
    project: Path, home: Path, ports: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    eos("up")
    report = json.loads(eos("status", "--json").stdout)
    nodes = Graphql(report["dagster"]).query("query {assetNodes {assetKey {path}}}")["assetNodes"]
    assets = {node["assetKey"]["path"][-1] for node in nodes}
    assert {"orders-in", "orders-out"} <= assets
    assert not {"datasource", "datasink", "transactions", "balances", "experiment"} & assets

    assert topics("create") == {"orders-in", "orders-out"}
    assert topics("list", "--module", "later") == {"orders-in", "orders-out", "refunds-in", "refunds-out"}
    assert json.loads(eos("run", "orders", "--json").stdout)["complete"]
    refused = eos("up", "--module", "later", status=1).stderr
    assert "Dagster is running without the pipelines of later." in refused

    eos("down")
    for name in ("EOS_KAFKA_PORT", "EOS_SPARK_CONNECT_PORT", "EOS_DAGSTER_PORT"):
        monkeypatch.delenv(name)
    eos("up", "--no-dagster")
    again = json.loads(eos("status", "--json").stdout)
    assert again["bootstrap_servers"] == report["bootstrap_servers"], "without settings the last ports are taken"
    assert again["spark"] == report["spark"]
