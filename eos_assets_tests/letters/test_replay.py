"""A replay delivers what today's transform accepts, a proof explains it, and the rest is refused with a reason."""

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.errors import EosError
from eos_assets.letters.letter import LetterFilter, read_letters
from eos_assets.log.ledger import REJECTED, REPLAYED
from eos_assets.log.letter_marks import Status
from eos_assets_tests.letters.replays import corrected, replay, run_with_letters
from eos_assets_tests.run.lab import MakeLab


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


def test_a_second_replay_finds_nothing_to_do(make_lab: MakeLab) -> None:
    lab = run_with_letters(make_lab)
    replay(lab, LetterFilter(origins=frozenset({(0, 1)})))
    with pytest.raises(EosError, match="offset 1 is replayed by tester"):
        replay(lab, LetterFilter(origins=frozenset({(0, 1)})))
    with pytest.raises(EosError, match="No open dead letter"):
        replay(lab, LetterFilter(codes=frozenset({"unknown"})))
    assert sorted(value or b"" for value in lab.values()) == [b"1", b"25", b"9", b"A", b"a"]


def test_arrow_pipelines_replay_letters_too(make_lab: MakeLab) -> None:
    """The transform is the same; what was rejected is rejected again."""
    lab = make_lab(kind="batches", partitions=2)
    lab.produce([b"1", b"a"])
    lab.produce([b"b"], partition=1)
    assert lab.run().complete
    report = replay(lab)
    assert sorted(report.marked(REJECTED)) == [(0, 1), (1, 0)]
    assert lab.values() == [b"1"]
    assert lab.broken() == set()


def test_a_proof_finds_a_replay_that_delivered_something_else(make_lab: MakeLab) -> None:
    lab = run_with_letters(make_lab)
    replay(lab, LetterFilter(origins=frozenset({(0, 1)})))

    def other(records: DataFrame) -> DataFrame:
        return corrected(records).withColumn("value", f.concat("value", f.lit("!")))

    assert lab.with_(transform=other).broken() == {"values_recompute"}


def test_letters_that_no_replay_can_deliver_once_are_refused(make_lab: MakeLab) -> None:
    def both(records: DataFrame) -> DataFrame:
        """An output and a dead letter of each record."""
        errors = f.explode(f.array(f.lit("half"), f.lit(None).cast("string")))
        return records.select("key", "value", errors.alias("error"), "origin")

    lab = make_lab(both, partitions=1)
    lab.produce([b"1"])
    assert lab.run().complete
    report = replay(lab)
    assert "also gave outputs" in report.refused[0, 0]
    assert not report.complete
    assert lab.values() == [b"1"]
    with pytest.raises(EosError, match="declares drops=True"):
        replay(lab.with_(drops=True))


def test_a_record_that_the_source_has_lost_is_replayed_from_its_letter(make_lab: MakeLab) -> None:
    def with_time(records: DataFrame) -> DataFrame:
        time = f.unix_millis("timestamp").cast("string")
        header = f.element_at("headers.value", 1).cast("string")
        return records.select(
            "key", f.concat_ws("|", f.col("value").cast("string"), time, header).alias("value"), "origin"
        )

    lab = make_lab(partitions=1)
    lab.produce([b"x"], headers=[("trace", b"17")])
    lab.produce([b"1"])
    assert lab.run().complete
    (source,) = [message for message in lab.read(lab.source) if message.value() == b"x"]
    lab.connection.admin.delete_records([TopicPartition(lab.source, 0, 1)])[TopicPartition(lab.source, 0, 1)].result()
    changed = lab.with_(transform=with_time, version="with_time")
    assert sorted(replay(changed).marked(REPLAYED)) == [(0, 0)]
    assert f"x|{source.timestamp()[1]}|17".encode() in lab.values()
    assert changed.broken() == set()
