"""Letters are replayed exactly once, however often, concurrently or interrupted, and a proof explains them."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
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


@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_crash_at_each_step_of_a_replay_delivers_each_letter_once(make_lab: MakeLab, failpoint: str) -> None:
    lab = run_with_letters(make_lab)
    report = replay(lab, faults=Faults(failpoint=failpoint, action="exit"))
    assert sorted(report.marked(REPLAYED)) == [(0, 1)]
    assert [entry.task_attempt for entry in report.entries] == [int(failpoint != "after_commit")], "the first has died"
    assert sorted(value or b"" for value in lab.values()) == [b"1", b"25", b"9", b"A", b"a"]
    if failpoint in ("before_commit", "after_commit"):
        assert lab.broken() == set()


class Background:
    """A replay in a thread of its own."""

    def __init__(self, lab: Lab, faults: NoFaults) -> None:
        self.report: LetterReport | None = None

        def work() -> None:
            self.report = replay(lab, faults=faults)

        self.thread = threading.Thread(target=work)
        self.thread.start()

    def result(self) -> LetterReport:
        self.thread.join(120)
        assert self.report is not None
        return self.report


@pytest.mark.parametrize("failpoint", ["before_init", "before_commit"])
def test_two_replays_at_once_deliver_each_letter_once(make_lab: MakeLab, tmp_path: Path, failpoint: str) -> None:
    """The first one is stopped in the middle, and wakes up after the second one has committed."""
    lab = run_with_letters(make_lab)
    first = Background(lab, Faults(failpoint=failpoint, action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    second = replay(lab)
    assert sorted(second.marked(REPLAYED)) == [(0, 1)]
    assert first.report is None, "the two overlap"
    os.kill(pid, signal.SIGCONT)
    report = first.result()
    assert report.marked(REPLAYED) == {}
    assert (0, 1) in report.marked_by_others
    if failpoint == "before_commit":
        assert any("newer attempt" in failure for failure in report.failures), "it was fenced"
    assert sorted(value or b"" for value in lab.values()) == [b"1", b"25", b"9", b"A", b"a"]
    assert lab.broken() == set()


def test_a_replay_during_a_run_disturbs_neither(make_lab: MakeLab, tmp_path: Path) -> None:
    from eos_assets_tests.run.background import Background as RunInBackground

    lab = run_with_letters(make_lab)
    lab.produce([b"7", b"8"])
    run = RunInBackground(lab, Faults(failpoint="before_commit", action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    assert sorted(replay(lab).marked(REPLAYED)) == [(0, 1)]
    os.kill(pid, signal.SIGCONT)
    report = run.result()
    assert report.complete
    assert [outcome.outcome for outcome in report.outcomes] == ["fenced", "committed"]
    assert report.seconds < 20, "it does not wait for the replay's next transaction"
    assert sorted(value or b"" for value in lab.values()) == [b"1", b"25", b"7", b"8", b"9", b"A", b"a"]
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
