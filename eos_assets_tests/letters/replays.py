"""A pipeline with dead letters, and replays of them."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.letters.letter import LetterFilter
from eos_assets.letters.marking import LetterReport
from eos_assets.letters.replay import ReplayOptions, replay_letters
from eos_assets.sink.job import NoFaults
from eos_assets_tests.run.lab import ACCEPTED, Lab, MakeLab

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
