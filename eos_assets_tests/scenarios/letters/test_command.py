"""`eos dead-letters` as a user runs it."""

import importlib
import json
import uuid
from pathlib import Path

import pytest

from eos_assets_tests.cli.command import eos
from eos_assets_tests.run.lab import MakeLab, squared

MODULE = """
import eos_assets as eos
from pyspark.sql import functions as f

@eos.pipeline(
    name="{name}", source=eos.Topic("{name}-source", partitions=1), sink=eos.Topic("{name}-sink", partitions=3)
)
def tidy(records):
    text = f.trim(f.col("value").cast("string"))
    wrong = f.when(text == "", f.lit("empty"))
    return eos.output(records, value=text, error=wrong)
"""


def test_letters_are_listed_shown_replayed_and_discarded(
    make_lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"letters_{uuid.uuid4().hex[:8]}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(name=name))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    lab = make_lab(pipeline=importlib.import_module(name).tidy)
    monkeypatch.setenv("EOS_BOOTSTRAP_SERVERS", lab.connection.bootstrap_servers)
    lab.produce([b"1", b" x", b" "])
    assert lab.with_(transform=squared, version="rejecting").run().complete
    command, module = ("dead-letters",), ("--module", name)

    listed = json.loads(eos(*command, "list", name, *module, "--json").stdout)
    assert [(group["code"], group["letters"]) for group in listed["reasons"]] == [("no integer", 2)]
    assert [letter["letter"] for letter in listed["letters"]] == ["0/1", "0/2"]
    assert "no integer" in eos(*command, "list", name, *module).stdout
    shown = json.loads(eos(*command, "show", name, "0/1", *module, "--json").stdout)
    assert (shown["key"], shown["value"], shown["status"]) == (" x", " x", "open")

    assert "No letters were chosen." in eos(*command, "replay", name, *module, status=1).stderr
    assert "is not valid" in eos(*command, "show", name, "17", *module, status=1).stderr
    assert "is not valid" in eos(*command, "list", name, *module, "--since", "now", status=1).stderr
    assert "has no dead letter of" in eos(*command, "show", name, "0/0", *module, status=1).stderr

    replayed = json.loads(eos(*command, "replay", name, *module, "--all", "--by", "ann", "--json", status=1).stdout)
    assert (replayed["replayed"], replayed["rejected"], replayed["records_out"]) == (["0/1"], {"0/2": "empty"}, 1)
    assert set(lab.values()) == {b"1", b"x"}
    traced = eos("trace", f"{name}-source", "0", "1", "--source", *module).stdout
    assert "letters 1" in traced

    discarded = eos(*command, "discard", name, *module, "--reason", "empty", "--why", "a blank line").stdout
    assert "1 discarded" in discarded
    assert "has no open dead letters" in eos(*command, "replay", name, *module, "--all", status=1).stderr
    assert f"{name}: no dead letters that are open" in eos(*command, "list", name, *module).stdout
    every = json.loads(eos(*command, "list", name, *module, "--status", "all", "--json").stdout)
    assert [letter["status"] for letter in every["letters"]] == ["replayed", "discarded"]
    assert lab.broken() == set()
