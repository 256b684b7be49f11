"""Arrow pipelines end to end: their tasks read, transform and write, and the proof runs the function again."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import TopicPartition

import eos_assets as eos
from eos_assets.declare.options import Batching, Unique
from eos_assets.errors import Code, EosError
from eos_assets.experiment.faults import Faults
from eos_assets.run import arrow_job
from eos_assets.run.preview import preview
from eos_assets.sink.job import Outcome
from eos_assets_tests.run.lab import Lab, MakeLab

BATCHES = {"kind": "batches"}


def numbers_of(records: pa.RecordBatch) -> pa.Array:
    """It raises on a value that is not an integer."""
    return pc.cast(pc.cast(records["value"], pa.string()), pa.int64())


def as_it_is(records: pa.RecordBatch) -> pa.RecordBatch:
    return records


@pytest.mark.connect
def test_squares_and_dead_letters_are_proven_in_every_partition(make_lab: MakeLab) -> None:
    lab = make_lab(**BATCHES)
    lab.fill(3000)
    lab.produce([b"x", b"y"], key=b"k", headers=[("trace", b"7")])
    report = lab.run()
    assert report.complete
    assert [row.dead for row in report.summary()] == [2, 0, 0]
    lab.assert_squares(range(3000))
    letters = lab.read(lab.pipeline.names().dead_letters)
    assert [letter.value() for letter in letters] == [b"x", b"y"]
    assert dict(letters[0].headers() or [])["trace"] == b"7"
    assert lab.lag() == 0
    assert lab.broken() == set()
    assert lab.run().entries == [], "nothing is new"


def test_few_and_many_new_records_are_proven_alike(make_lab: MakeLab) -> None:
    """The driver reads few itself, and Spark's tasks read many."""
    lab = make_lab(partitions=2, **BATCHES)
    for count in (100, 30_000, 10):
        lab.fill(count)
        assert lab.run().complete
        proof = lab.proof()
        assert proof.holds, [finding for finding in proof.findings if not finding.holds]
        assert proof.figures["source_records"] == count


def test_headers_timestamps_and_partitions_are_read_and_written(make_lab: MakeLab) -> None:
    def moved(records: pa.RecordBatch) -> pa.Table:
        later = pc.add(records["timestamp"], pa.scalar(1, pa.duration("s")))
        partition = pc.subtract(2, records["partition"])
        return eos.output(records, value="value", headers="headers", timestamp=later, partition=partition)

    lab = make_lab(moved, columns=["timestamp", "headers", "partition"], **BATCHES)
    for partition in range(3):
        lab.produce([b"%d" % partition], partition, headers=[("h", b"\xff"), ("h", None)])
    assert lab.run().complete
    written, sources = lab.read(), {message.value(): message for message in lab.read(lab.source)}
    assert [message.value() for message in written] == [b"2", b"1", b"0"]
    for message in written:
        assert message.headers() == [("h", b"\xff"), ("h", None)]
        assert message.timestamp()[1] == sources[message.value()].timestamp()[1] + 1000
    assert lab.broken() == set()
    assert lab.with_(transform=as_it_is, batch_columns=()).broken() >= {"values_recompute"}, "headers are compared"


def test_outputs_go_to_several_topics_in_the_order_of_their_sequence(make_lab: MakeLab) -> None:
    lab = make_lab(sinks=2, **BATCHES)
    one, two = (sink.name for sink in lab.pipeline.sinks)

    def twice(records: pa.RecordBatch) -> pa.Table:
        """For each record first the row of sequence 1, then that of sequence 0."""
        rows = pa.concat_tables([pa.Table.from_batches([records])] * 2)
        count = records.num_rows
        return eos.output(rows, value="value", topic=[two] * count + [None] * count, sequence=[1] * count + [0] * count)

    lab = lab.with_(transform=twice)
    lab.fill(300)
    assert lab.run().complete
    for topic in (one, two):
        assert sorted(int(value or 0) for value in lab.values(topic)) == list(range(300))
    assert lab.broken() == set()
    wrong = lab.with_(transform=lambda records: eos.output(records, value="value", topic=["elsewhere"] * len(records)))
    lab.produce([b"7"])
    (outcome,) = wrong.run().outcomes
    assert outcome.code == Code.INVALID_RESULT
    assert "elsewhere" in outcome.reason


def odd_only(records: pa.RecordBatch) -> pa.RecordBatch:
    return records.filter(pc.equal(pc.bit_wise_and(numbers_of(records), 1), 1))


def test_a_filter_is_refused_unless_it_is_declared(make_lab: MakeLab) -> None:
    lab = make_lab(odd_only, **BATCHES)
    lab.fill(300)
    report = lab.run()
    assert not report.complete
    assert {outcome.code for outcome in report.outcomes} == {Code.RECORD_LEFT_OUT}
    assert "declare drops=True" in report.summary()[0].reason
    assert lab.read() == []
    dropping = lab.with_(drops=True)
    assert dropping.run().complete
    assert sorted(int(value or 0) for value in lab.values()) == list(range(1, 300, 2))
    assert dropping.lag() == 0
    assert dropping.broken() == set()
    keeps_more = dropping.with_(transform=as_it_is)
    assert "none_missing" in keeps_more.broken()


def test_skips_are_counted_and_proven(make_lab: MakeLab) -> None:
    def skipping(records: pa.RecordBatch) -> pa.Table:
        return eos.output(records, value="value", skip=pc.equal(pc.bit_wise_and(numbers_of(records), 1), 0))

    lab = make_lab(skipping, **BATCHES)
    lab.fill(300)
    assert sum(row.skipped for row in lab.run().summary()) == 150
    assert lab.broken() == set()


def test_a_range_of_several_transactions_resumes_after_failures(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1, batching=Batching(records=100), **BATCHES)
    lab.fill(2000)
    report = lab.run(Faults(probability=0.3, seed=3), max_attempts=40)
    assert report.complete
    assert any(entry.task_attempt or entry.run_attempt > 1 for entry in report.entries), "some attempt has failed"
    assert len(report.entries) > 10
    lab.assert_squares(range(2000))
    assert lab.broken() == set()


def raising(records: pa.RecordBatch) -> pa.Table:
    return eos.output(records, value=numbers_of(records))


def test_a_record_on_which_the_function_raises_is_named_with_the_line_of_code(make_lab: MakeLab) -> None:
    lab = make_lab(raising, partitions=1, **BATCHES)
    lab.produce([b"1", b"x", b"3"])
    with pytest.raises(EosError, match=r"raises on \S+/0 offset 1: ArrowInvalid: .*in numbers_of: return pc\.cast"):
        lab.run()
    with pytest.raises(EosError, match=r"raises: \S*ArrowInvalid: .*in numbers_of: return pc\.cast"):
        preview(lab.pipeline, lab.spark, lab.connection, 3)
    assert lab.read() == []


def test_a_record_on_which_the_function_raises_may_be_isolated(make_lab: MakeLab) -> None:
    lab = make_lab(raising, partitions=1, on_error="isolate", **BATCHES)
    lab.produce([b"1", b"2", b"x", b"4"])
    assert lab.run().complete
    assert sorted(value or b"" for value in lab.values()) == [b"1", b"2", b"4"]
    (letter,) = lab.read(lab.pipeline.names().dead_letters)
    assert letter.value() == b"x"
    assert b"ArrowInvalid" in (dict(letter.headers() or [])["eos.error"] or b"")
    assert lab.broken() == set()


def lacking(records: pa.RecordBatch) -> Any:
    import a_module_that_is_nowhere  # type: ignore[import-not-found]

    return a_module_that_is_nowhere.of(records)


def test_a_module_that_the_tasks_lack_is_named(make_lab: MakeLab) -> None:
    lab = make_lab(lacking, partitions=1, on_error="isolate", **BATCHES)
    lab.produce([b"1"])
    report = lab.run()
    assert not report.complete
    assert "a_module_that_is_nowhere" in report.summary()[0].reason


def test_a_preview_shows_records_and_results_side_by_side(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1, **BATCHES)
    lab.produce([b"3", b"x"])
    shown = preview(lab.pipeline, lab.spark, lab.connection, 2)
    results = [(bytes(one.source.value), one.results[0].value, one.results[0].error) for one in shown]
    assert results == [(b"3", b"9", None), (b"x", None, "no integer")]


def test_repeated_business_keys_are_found(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1, unique=Unique("key"), **BATCHES)
    lab.produce([b"1", b"2", b"2"])
    assert lab.run().complete
    findings = lab.verify()
    assert not findings["source_is_unique"].holds
    assert {name for name, finding in findings.items() if not finding.holds} == {"source_is_unique"}


def test_a_function_that_combines_records_is_found_by_the_proof(make_lab: MakeLab) -> None:
    """Batches are cut anywhere, so the result of a record must not depend on its neighbors."""

    def summed(records: pa.RecordBatch) -> pa.Table:
        return eos.output(records, value=pc.cumulative_sum(numbers_of(records)))

    lab = make_lab(summed, partitions=1, **BATCHES)
    lab.fill(100)
    assert lab.run().complete
    assert lab.broken() == {"values_recompute"}


def test_records_that_are_deleted_before_they_are_read_fail_the_range(
    make_lab: MakeLab, caplog: pytest.LogCaptureFixture
) -> None:
    """The plan was made before. Nothing is committed, and the next plan of the run names the lost range."""
    lab = make_lab(partitions=1, **BATCHES)
    lab.fill(100)

    def truncate_once(context: Any, template: Any) -> Any:
        for future in lab.connection.admin.delete_records([TopicPartition(lab.source, 0, 70)]).values():
            future.result()
        return arrow_job.ArrowJobRunner(context, template)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eos_assets.run.run.ArrowJobRunner", truncate_once)
        with pytest.raises(EosError, match="offsets 0 to 69 were deleted"):
            lab.run()
    assert f"Offset 0 of {lab.source}/0 was deleted before it was read" in caplog.text
    assert lab.read() == []


def test_a_partition_without_an_outcome_is_not_taken_for_an_empty_one(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(as_it_is, partitions=1, drops=True, **BATCHES)
    lab.fill(10)
    monkeypatch.setattr(arrow_job, "collect", lambda _: list[Outcome]())
    report = lab.run(max_attempts=1)
    assert not report.complete
    assert report.failures == ["Spark returned no outcome for partition 0"]
    assert lab.lag() == 10
    monkeypatch.undo()
    assert lab.run().complete
    assert len(lab.values()) == 10


def test_ranges_without_visible_records_are_committed(make_lab: MakeLab) -> None:
    lab: Lab = make_lab(**BATCHES)
    lab.produce_transaction([b"1"], commit=False)
    report = lab.run()
    assert report.complete
    assert lab.lag() == 0
    assert lab.values() == []
    assert lab.broken() == set()
