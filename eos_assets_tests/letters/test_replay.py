"""Letters are replayed exactly once, however often, concurrently or interrupted, and a proof explains them."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.errors import EosError
from eos_assets.experiment.faults import Faults
from eos_assets.letters.letter import LetterFilter, read_letters
from eos_assets.letters.marking import LetterReport
from eos_assets.letters.replay import ReplayOptions, replay_letters
from eos_assets.log.ledger import REJECTED, REPLAYED
from eos_assets.log.letter_marks import Status
from eos_assets.sink.job import FAILPOINTS, NoFaults
from eos_assets_tests.run.background import await_stopped
from eos_assets_tests.run.lab import ACCEPTED, Lab, MakeLab, both_kinds

EVERY = LetterFilter()
SOURCE = [b"1", b"a", b"3", b"b: 4", b"5"]


def corrected(records: DataFrame) -> DataFrame:
    """Accepts a letter of the alphabet as two records, and still rejects anything else that is not an integer."""
    text = f.col("value").cast("string")
    letter = text.rlike("^[a-z]$")
    wrong = f.when(~letter & text.try_cast("long").isNull(), f.concat(f.lit("still_wrong: "), text))
    values = f.when(letter, f.array(text, f.upper(text))).otherwise(f.array(text))
    return records.select("key", f.explode(values).alias("value"), wrong.alias("error"), "origin")


def run_with_letters(make_lab: MakeLab, **declared: Any) -> Lab:
    """A pipeline that has rejected two of five records, and its corrected transform."""
    lab = make_lab(partitions=1, **declared)
    lab.produce(SOURCE)
    assert lab.run().complete
    return lab.with_(transform=corrected, version="corrected")


def replay(lab: Lab, chosen: LetterFilter = EVERY, faults: NoFaults | None = None) -> LetterReport:
    options = ReplayOptions("tester", faults or NoFaults(), ACCEPTED)
    return replay_letters(lab.context, chosen, options)


def test_a_replay_delivers_what_todays_transform_accepts_and_marks_the_rest(make_lab: MakeLab) -> None:
    lab = run_with_letters(make_lab)
    report = replay(lab)
    assert report.marked(REPLAYED) == {(0, 1): ""}
    assert report.marked(REJECTED) == {(0, 3): "still_wrong: b: 4"}
    assert sorted(value or b"" for value in lab.values()) == [b"1", b"25", b"9", b"A", b"a"]
    (letter,) = read_letters(lab.pipeline, lab.connection)
    assert (letter.origin, letter.code, letter.status) == ((0, 3), "still_wrong", Status.OPEN)
    assert lab.broken() == set()
    lab.produce([b"6"])
    assert lab.run().complete, "the next run goes on from the position"
    assert lab.broken() == set()
