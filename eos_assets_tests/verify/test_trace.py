"""What became of a source record, and where a dead letter came from."""

from unittest.mock import Mock

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.log.ledger import LedgerEntry
from eos_assets.verify import trace
from eos_assets.verify.trace import entry_of, explain_missing_outcome, origin_of, outcome_of
from eos_assets_tests.run.lab import Lab, MakeLab


def became(lab: Lab, offset: int) -> list[str]:
    return [link.became for link in outcome_of(lab.pipeline, lab.connection, 0, offset)]


def test_dead_letters_and_skips_are_traced(make_lab: MakeLab) -> None:
    """In a sink whose name is the one that maps give to skips."""

    def sorted_out(records: DataFrame) -> DataFrame:
        text = f.col("value").cast("string")
        return records.select(
            "value", (text == "skip").alias("skip"), f.when(text == "bad", f.lit("bad")).alias("error"), "origin"
        )

    lab = make_lab(sorted_out, partitions=1, sink=[Topic("skipped", partitions=1)])
    dead_letters = lab.pipeline.names().dead_letters
    lab.produce([b"bad", b"skip", b"good"])
    assert lab.run().complete
    assert [became(lab, offset) for offset in range(3)] == [[f"{dead_letters}/0/0"], ["skipped"], ["skipped/0/0"]]
    for topic, offset in ((dead_letters, 0), ("skipped", 2)):
        link = origin_of(lab.pipeline, lab.connection, topic, 0, 0)
        assert link is not None
        assert link.source == f"{lab.source}/0/{offset}"
        assert isinstance(link.entry, LedgerEntry)
        assert (link.entry.start, link.entry.next) == (0, 3)
    assert lab.broken() == set()


def test_a_record_of_many_outputs_is_traced_with_one_read_of_the_ledger_and_after_its_deletion(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spread(records: DataFrame) -> DataFrame:
        numbers = f.sequence(f.lit(1), f.lit(30)).cast("array<string>")
        return records.where("origin.offset > 0").select("key", f.explode(numbers).alias("value"), "origin")

    lab = make_lab(spread, partitions=1, drops=True)
    lab.produce([b"0", b"1", b"2"])
    assert lab.run().complete
    counted = Mock(wraps=entry_of)
    monkeypatch.setattr(trace, "entry_of", counted)
    assert len(became(lab, 1)) == 30
    assert counted.call_count == 1
    for future in lab.connection.admin.delete_records([TopicPartition(lab.source, 0, 2)]).values():
        future.result()
    assert len(became(lab, 1)) == 30
    for offset, message in ((0, "0 was deleted, and no map names it"), (3, "3 is not among them")):
        with pytest.raises(EosError, match=message):
            became(lab, offset)


def test_a_dropped_record_differs_from_one_that_is_not_processed_yet(make_lab: MakeLab) -> None:
    def some(records: DataFrame) -> DataFrame:
        return records.where("origin.offset = 1").select("value", "origin")

    lab = make_lab(some, partitions=1, drops=True)
    lab.produce([b"0", b"1"])
    assert lab.run().complete
    lab.produce([b"2"])
    assert [became(lab, offset) for offset in range(3)] == [[], [f"{lab.sink}/0/0"], []]
    assert explain_missing_outcome(lab.pipeline, lab.connection, 0, 0) == "dropped by the transform"
    assert explain_missing_outcome(lab.pipeline, lab.connection, 0, 2) == "not yet processed"
