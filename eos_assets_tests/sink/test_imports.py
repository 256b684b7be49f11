"""What tasks import, executors must have: the few packages that docs/scale.md names, and nothing else."""

import json
import subprocess
import sys

import pytest

#: The modules whose functions travel to the executors.
MODULES = (
    "eos_assets.sink.arrow_task",
    "eos_assets.sink.task",
    "eos_assets.declare.fold_by_key",
    "eos_assets.state.fold",
    "eos_assets.files.task",
    "eos_assets.verify.provenance_frame",
    "eos_assets.verify.rows.sink_checker",
    "eos_assets.verify.rows.source_checker",
    "eos_assets.verify.rows.summary",
    "eos_assets.verify.totals.sink_pass",
    "eos_assets.verify.totals.topic_pass",
)
PROMISED = {"eos_assets", "pyarrow", "numpy", "pandas", "pyspark", "confluent_kafka", "xxhash"}

#: Records only what the project's own modules import: pandas tries many other packages and does without them.
SCRIPT = """
import builtins, importlib, json, sys

imported, plain = set(), builtins.__import__

def record(name, globals=None, locals=None, fromlist=(), level=0):
    if (globals or {}).get("__name__", "").startswith("eos_assets"):
        imported.add(name.partition(".")[0])
    return plain(name, globals, locals, fromlist, level)

builtins.__import__ = record
importlib.import_module(sys.argv[1])
heavy = {"dagster", "psutil", "rich", "click"} & set(sys.modules)
print(json.dumps([sorted(imported - sys.stdlib_module_names), sorted(heavy)]))
"""


@pytest.mark.parametrize("module", MODULES)
def test_tasks_import_only_what_executors_are_promised_to_need(module: str) -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT, module], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    imported, heavy = json.loads(run.stdout)
    assert set(imported) <= PROMISED
    assert heavy == []
