"""The dashboard, the alert rules and the docs name metrics that the exporter has."""

import json
import re
from typing import Any

import yaml

from eos_assets.kafka.offsets import Bounds
from eos_assets.metrics.families import families, up
from eos_assets.metrics.reader import PartitionState, PipelineState
from eos_assets.metrics.totals import LedgerTotals
from eos_assets.verify.last_proof import LastProof
from eos_assets_tests.docker.compose_file import ROOT, services
from eos_assets_tests.metrics.test_totals import entry
from eos_assets_tests.run.lab import declare

DOCKER = ROOT / "docker"
#: A metric of the exporter, with its suffix.
METRIC = re.compile(r"\beos_[a-z_]+\b")


def exported() -> set[str]:
    """The names of all samples of a pipeline that has everything."""
    totals = LedgerTotals()
    totals.add(entry(0, 1))
    state = PipelineState(
        declare(fresh_within=60),
        partitions={0: PartitionState(totals, 1, Bounds(0, 2, 2), 3.0)},
        open_seconds={("t", 0): 1.0},
        reasons={"no integer": 1},
        proof=LastProof(2.0, 1.0, ("none_missing",)),
    )
    return {sample.name for metric in (up(True), *families([state])) for sample in metric.samples}


def dashboard() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DOCKER / "grafana" / "eos.json").read_text())
    return content


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((DOCKER / "prometheus" / "rules.yml").read_text())["groups"]
    listed: list[dict[str, Any]] = group["rules"]
    return listed


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    named = {name for panel in dashboard()["panels"] for t in panel["targets"] for name in METRIC.findall(t["expr"])}
    assert {without_suffix(name) for name in named} == {without_suffix(name) for name in exported()}


def without_suffix(name: str) -> str:
    """The name of a histogram."""
    return re.sub(r"_(bucket|count|sum)$", "", name)


def test_the_rules_name_metrics_that_are_exported() -> None:
    named = {name for rule in rules() for name in METRIC.findall(rule["expr"])}
    assert named <= exported()


def test_there_is_an_alert_for_each_problem_and_the_runbook_has_it() -> None:
    names = [rule["alert"] for rule in rules()]
    assert {"EosExporterDown", "EosPartitionStuck", "EosProofFailed", "EosProofStale"} <= set(names)
    assert {"EosDeadLetters", "EosTransactionOpen", "EosPartitionLate"} <= set(names)
    page = (ROOT / "docs" / "operations.md").read_text()
    assert re.findall(r"^\| `(Eos\w+)`", page, re.MULTILINE) == names


def test_prometheus_scrapes_the_exporter_of_the_compose_file() -> None:
    (job,) = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    command = services()["eos-exporter"]["command"]
    (target,) = job["static_configs"][0]["targets"]
    assert target == f"eos-exporter:{command[command.index('--port') + 1]}"
    assert f'job="{job["job_name"]}"' in rules()[0]["expr"]


def test_everything_that_a_service_mounts_from_here_exists() -> None:
    mounted = [mount.split(":")[0] for service in services().values() for mount in service.get("volumes", ())]
    here = [path for path in mounted if path.startswith("./")]
    assert here
    assert [path for path in here if not (DOCKER / path).exists()] == []
