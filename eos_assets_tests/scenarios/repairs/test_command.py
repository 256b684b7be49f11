"""`eos repair` as a user runs it."""

import importlib
import json
import uuid
from pathlib import Path

import pytest

from eos_assets_tests.cli.command import eos
from eos_assets_tests.repair.holes import keys, torn, without
from eos_assets_tests.run.forgery import NUMBERS, correct_outputs, forge
from eos_assets_tests.run.lab import MakeLab

MODULE = """
import eos_assets as eos
from pyspark.sql import functions as f

@eos.pipeline(
    name="{name}", source=eos.Topic("{name}-source", partitions=1), sink=eos.Topic("{name}-sink", partitions=3)
)
def plain(records):
    number = f.col("value").cast("string").try_cast("decimal(19,0)")
    return eos.output(records, value=(number * number).cast("string"))
"""


def test_the_command_lists_first_and_writes_only_if_asked_to(
    make_lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"repair_{uuid.uuid4().hex[:8]}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(name=name))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    lab = make_lab(pipeline=importlib.import_module(name).plain)
    monkeypatch.setenv("EOS_BOOTSTRAP_SERVERS", lab.connection.bootstrap_servers)
    forge(lab, torn(3)(without(7)(correct_outputs())))
    command = ("repair", name, "--module", name)

    listed = eos(*command, status=1).stdout
    assert f"{name}-source/0/7" in listed
    assert f"Nothing was written. `eos repair {name} --apply` writes what is missing." in listed
    assert len(keys(lab)) == 18

    written = json.loads(eos(*command, "--apply", "--json").stdout)
    assert [(one["origin"], one["was_written"]) for one in written["missing"]] == [
        (f"{name}-source/0/3", True),
        (f"{name}-source/0/7", False),
    ]
    assert [(row["outcome"], row["records_out"]) for row in written["partitions"]] == [("committed", 2)]
    assert written["complete"]
    assert keys(lab) == NUMBERS

    assert "nothing to repair" in eos(*command, "--apply").stdout
    assert "remedy:" in eos("repair", "nowhere", "--module", name, status=1).stderr
