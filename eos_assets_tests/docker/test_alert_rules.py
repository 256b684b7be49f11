"""The alert rules of Prometheus fire when they should, and not otherwise, as Prometheus' own tool evaluates them."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from eos_assets_tests.docker.compose_file import ROOT

RULES = ROOT / "docker" / "prometheus" / "rules.yml"
PARTITION = 'pipeline="p",partition="0"'
#: A platform on which all is well. The times are those of promtool: its tests begin at 0, with a value each minute.
HEALTHY = {
    'up{job="eos"}': "1x200",
    "eos_up": "1x200",
    'eos_pipeline_up{pipeline="p"}': "1x200",
    f"eos_lagging_seconds{{{PARTITION}}}": "0x200",
    'eos_fresh_within_seconds{pipeline="p"}': "300x200",
    'eos_proof_holds{pipeline="p"}': "1x200",
    'eos_proof_timestamp_seconds{pipeline="p"}': "30+60x200",
    f"eos_last_commit_timestamp_seconds{{{PARTITION}}}": "20+60x200",
    f"eos_dead_letters_total{{{PARTITION}}}": "5x200",
    f'eos_open_transaction_seconds{{topic="t",{PARTITION}}}': "0x200",
}

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)


def firing(alert: str, severity: str, labels: str = "") -> str:
    return f'ALERTS{{alertname="{alert}",alertstate="firing",severity="{severity}"{"," * bool(labels)}{labels}}}'


def evaluate(folder: Path, changed: dict[str, str], minute: int, expected: list[str]) -> None:
    """Let promtool compare the alerts that fire at a minute."""
    series = [{"series": name, "values": values} for name, values in {**HEALTHY, **changed}.items()]
    fires: dict[str, Any] = {
        "expr": 'ALERTS{alertstate="firing"}',
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": labels, "value": 1} for labels in expected],
    }
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [fires]}
    content = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}
    (folder / "test.yml").write_text(yaml.safe_dump(content))
    run = subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@needs_promtool
def test_nothing_fires_while_all_is_well(tmp_path: Path) -> None:
    evaluate(tmp_path, {}, 180, [])


@needs_promtool
@pytest.mark.parametrize(
    ("changed", "minute", "expected"),
    [
        ({'up{job="eos"}': "0x200"}, 5, [firing("EosExporterDown", "warning", 'job="eos"')]),
        ({"eos_up": "0x200"}, 5, [firing("EosBrokersDown", "critical")]),
        (
            {'eos_pipeline_up{pipeline="p"}': "0x200"},
            10,
            [firing("EosPipelineUnreadable", "warning", 'pipeline="p"')],
        ),
        (
            {f"eos_lagging_seconds{{{PARTITION}}}": "0+60x200"},
            9,
            [firing("EosPartitionLate", "warning", PARTITION)],
        ),
        (
            {f"eos_lagging_seconds{{{PARTITION}}}": "0+60x200"},
            12,
            [firing("EosPartitionLate", "warning", PARTITION), firing("EosPartitionStuck", "critical", PARTITION)],
        ),
        ({'eos_proof_holds{pipeline="p"}': "1x5 0x200"}, 8, [firing("EosProofFailed", "critical", 'pipeline="p"')]),
        (
            {'eos_proof_timestamp_seconds{pipeline="p"}': "30x200"},
            80,
            [firing("EosProofStale", "warning", 'pipeline="p"')],
        ),
        (
            {f"eos_dead_letters_total{{{PARTITION}}}": "5x20 7x200"},
            25,
            [firing("EosDeadLetters", "warning", 'pipeline="p"')],
        ),
        (
            {f'eos_open_transaction_seconds{{topic="t",{PARTITION}}}': "0+60x200"},
            17,
            [firing("EosTransactionOpen", "critical", f'topic="t",{PARTITION}')],
        ),
    ],
)
def test_an_alert_fires_for_its_problem(
    tmp_path: Path, changed: dict[str, str], minute: int, expected: list[str]
) -> None:
    evaluate(tmp_path, changed, minute, expected)
