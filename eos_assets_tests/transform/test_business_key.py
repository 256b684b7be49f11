"""Business keys and reasons that are not text."""

import struct

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.declare.options import Unique
from eos_assets.errors import EosError
from eos_assets_tests.run.lab import MakeLab, raising


def test_a_reason_and_a_key_that_are_not_utf8_stop_nothing(make_lab: MakeLab) -> None:
    def quoting(records: DataFrame) -> DataFrame:
        text = f.col("value").cast("string")
        wrong = f.when(text.try_cast("long").isNull(), f.concat(f.lit("no integer: "), text))
        return records.select("key", "value", wrong.alias("error"), "origin")

    lab = make_lab(quoting, partitions=1, unique=Unique("key"))
    key = struct.pack(">q", 200)  # as Java's LongSerializer writes it
    lab.produce([b"1", b"\xff\xfe\x80abc", b"2"], key=key)
    assert lab.run().complete
    (letter,) = lab.read(lab.pipeline.names().dead_letters)
    assert letter.value() == b"\xff\xfe\x80abc"
    assert str(dict(letter.headers() or [])["eos.error"]).endswith("abc'")
    findings = lab.verify()
    assert findings["source_is_unique"].examples == ("records=3, business_key=0x00000000000000C8",)
    assert lab.broken() == set()
    by_number = lab.with_(unique=Unique("try_cast(cast(value as string) as bigint) % 1"))
    assert by_number.verify()["source_is_unique"].examples == ("records=2, business_key=0",)
    wrong = lab.with_(unique=Unique("valeu"))
    for act in (wrong.run, wrong.proof):
        with pytest.raises(EosError, match=r"Unique\(by='valeu'\) is not valid"):
            act()
    raising_now = lab.with_(transform=raising)
    with pytest.raises(EosError, match=r"could not be proven to the end: .*CAST_INVALID_INPUT"):
        raising_now.proof(full=True)
