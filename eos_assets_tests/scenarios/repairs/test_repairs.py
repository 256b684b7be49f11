"""What can be repaired is repaired, in every kind of pipeline; what cannot be is named with its reason."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.log.ledger import LedgerEntry, Repair
from eos_assets.repair.plan import plan_repair
from eos_assets.verify import checkpoint
from eos_assets.verify.trace import origin_of
from eos_assets.verify.window.reader import read_window
from eos_assets_tests.orchestration.test_mutants import changed, exchanged, swapped, wrong_digest
from eos_assets_tests.repair.holes import Change, keys, repair, torn, without
from eos_assets_tests.run.forgery import NUMBERS, Output, commit_group, correct_outputs, forge
from eos_assets_tests.run.lab import Lab, MakeLab


def unchanged(made: list[Output]) -> list[Output]:
    return made


def no_spoil(entry: LedgerEntry) -> LedgerEntry:
    return entry


def gap(entry: LedgerEntry) -> LedgerEntry:
    return replace(entry, start=3)


UNREPAIRABLE: dict[str, tuple[Change, Callable[[LedgerEntry], LedgerEntry], str]] = {
    "a swap": (swapped, no_spoil, "cannot be moved to a later offset"),
    "a wrong partition": (
        changed(7, partition=(correct_outputs()[7].partition + 1) % 3),
        no_spoil,
        "another partition",
    ),
    "a gap in the ledger": (without(7), gap, "the ledger is torn"),
    "a digest that is not the sink's": (unchanged, wrong_digest, "an entry of the ledger cannot be changed"),
    "a wrong value": (changed(7, wrong_value=True), no_spoil, "holds another value"),
    "two values exchanged": (exchanged, no_spoil, "holds another value"),
    "a loss of something else": (torn(7), wrong_digest, "something else was written"),
}


@pytest.mark.parametrize("name", UNREPAIRABLE)
def test_what_cannot_be_repaired_is_named_and_nothing_is_written(make_lab: MakeLab, name: str) -> None:
    change, spoil, reason = UNREPAIRABLE[name]
    lab = make_lab(partitions=1)
    made = correct_outputs()
    if name == "a loss of something else":  # in the partition of the range whose digest is wrong
        change = torn(next(output.number for output in made if output.partition == 0))
    forge(lab, change(made), spoil)
    before = lab.values()
    plan = plan_repair(lab.context)
    assert plan.repairs == {}
    assert any(reason in one.reason for one in plan.unrepairable), plan.unrepairable
    assert repair(lab, plan).outcomes == []
    assert lab.values() == before


@pytest.mark.parametrize("named", [True, False])
def test_doubles_are_listed_for_readers_and_never_deleted(make_lab: MakeLab, named: bool) -> None:
    lab = make_lab(partitions=1)
    forge(lab, [*without(3)(correct_outputs()), replace(correct_outputs()[19], named=named)])
    plan = plan_repair(lab.context)
    (double,) = plan.doubles
    assert double.origin == (f"{lab.source}/0/19" if named else "")
    assert [one.origin for one in plan.missing] == [f"{lab.source}/0/3"]
    assert repair(lab, plan).complete
    kept = [
        m
        for m in lab.read()
        if (m.topic(), m.partition(), m.offset()) != (double.topic, double.partition, double.offset)
    ]
    assert sorted(int(m.key() or b"") for m in kept) == NUMBERS, "without it, each is read once"
    assert keys(lab) == sorted([*NUMBERS, 19])
    assert lab.broken() - {"ordered_within_partition"} == {
        "no_duplicates" if named else "none_invented",
        "values_recompute",
    }, "what was missing is no longer"


def test_only_the_records_of_a_repair_may_follow_later_ones(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1)
    forge(lab, without(7)(swapped(correct_outputs())))
    repair(lab)
    assert keys(lab) == NUMBERS
    assert lab.broken() == {"ordered_within_partition"}


def test_a_hole_before_the_checkpoint_of_the_proof_is_repaired(make_lab: MakeLab) -> None:
    """The last proof held before the records were lost."""
    lab = make_lab(partitions=1)
    forge(lab, torn(3)(without(7)(correct_outputs())))
    checkpoint.store(lab.connection, lab.pipeline.names(), read_window(lab.context, full=True).ends)
    assert lab.proof().nothing_new, "a proof of what is new does not see it"
    assert repair(lab).complete
    proof = lab.proof()
    assert proof.holds
    assert not proof.incremental, "a repair makes the next proof read everything"
    lab.produce([b"20"])
    assert lab.run().complete
    later = lab.proof()
    assert later.holds
    assert later.incremental
    assert lab.proof(full=True).holds


def test_a_trace_of_a_repaired_record_names_the_repair(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1)
    forge(lab, without(7)(correct_outputs()))
    assert repair(lab).complete
    (record,) = [m for m in lab.read() if m.key() == b"7"]
    trace = origin_of(lab.pipeline, lab.connection, lab.sink, record.partition() or 0, record.offset() or 0)
    assert trace is not None
    assert trace.source == f"{lab.source}/0/7"
    assert isinstance(trace.entry, Repair)
    assert trace.entry.number == 1


def test_a_source_record_that_is_gone_is_named(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1)
    forge(lab, torn(3)(without(12)(correct_outputs())))
    deleted = lab.connection.admin.delete_records([TopicPartition(lab.source, 0, 9)])
    for future in deleted.values():
        future.result()
    plan = plan_repair(lab.context)
    assert [(one.what, one.reason) for one in plan.unrepairable if "/" in one.what] == [
        (f"{lab.source}/0/3 output 0", "retention has removed the source record")
    ]
    assert [one.origin for one in plan.missing] == [f"{lab.source}/0/12"]
    assert repair(lab, plan).complete
    assert keys(lab) == [n for n in NUMBERS if n != 3]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"version": "another"}, "another version of the code"), ({"deterministic": False}, "deterministic=False")],
    ids=["other code", "not deterministic"],
)
def test_what_the_transform_may_not_give_again_is_not_repaired(
    make_lab: MakeLab, changes: dict[str, object], reason: str
) -> None:
    lab = make_lab(partitions=1)
    forge(lab, torn(3)(without(7)(correct_outputs())))
    plan = plan_repair(lab.with_(**changes).context)
    assert plan.repairs == {}
    named = {one.what: one.reason for one in plan.unrepairable}
    assert reason in named[f"{lab.source}/0/7"]
    assert reason in named[f"{lab.source}/0/3 output 0"]


def expand(records: DataFrame) -> DataFrame:
    """A record gives an output in each of two sinks; texts are rejected, and every fifth record is skipped."""
    number = f.col("value").cast("string").try_cast("long")
    topics = f.explode(f.array(f.lit("first"), f.lit("second"))).alias("which")
    rows = records.select("key", "value", "origin", number.alias("number"), topics)
    plain = (f.col("number") % 5 != 0) | (f.col("which") == "first")
    return rows.where(f.col("number").isNotNull() & plain | (f.col("which") == "first")).select(
        "key",
        f.concat("value", f.lit("-"), "which").alias("value"),
        f.when(f.col("number").isNull(), "no integer").alias("error"),
        f.coalesce(f.col("number") % 5 == 0, f.lit(False)).alias("skip"),
        "origin",
    )


@pytest.mark.parametrize("shuffles", [False, True], ids=["narrow", "shuffled"])
def test_single_outputs_dead_letters_and_skips_are_produced_again(make_lab: MakeLab, shuffles: bool) -> None:
    """They were left out by code of the same declared version: some records entirely, of one its second output."""

    def whole(records: DataFrame) -> DataFrame:
        return expand(records).repartition(3) if shuffles else expand(records)

    def lossy(records: DataFrame) -> DataFrame:
        lost = (f.col("origin.offset").isin(3, 5, 8)) | (f.col("value").cast("string") == "4-second")
        return whole(records).where(~lost)

    lab = make_lab(whole, partitions=1, code_version="1")
    lab.produce([b"%d" % n for n in range(8)] + [b"text", b"other"])
    assert lab.with_(transform=lossy, drops=True).run().complete
    assert {"none_missing", "values_recompute"} <= lab.broken()
    plan = plan_repair(lab.context)
    wanted = [(3, 0), (3, 1), (4, 1), (5, -1), (8, 0)]
    assert [(int(one.origin.rpartition("/")[2]), one.sequence) for one in plan.missing] == wanted
    report = repair(lab, plan)
    assert [(o.records_in, o.records_out, o.skipped, o.dead) for o in report.outcomes] == [(4, 3, 1, 1)]
    expected = [f"{n}-{which}" for n in range(8) if n % 5 for which in ("first", "second")]
    assert sorted((v or b"").decode() for v in lab.values()) == expected
    assert sorted(v or b"" for v in lab.values(lab.pipeline.names().dead_letters)) == [b"other", b"text"]
    assert lab.broken() == set()


def test_a_record_is_left_alone_whose_outputs_have_other_numbers(make_lab: MakeLab) -> None:
    """Of record 4 the first output was left out, so the second one has its number."""

    def lossy(records: DataFrame) -> DataFrame:
        return expand(records).where("string(value) != '4-first'")

    lab = make_lab(expand, partitions=1, code_version="1")
    lab.produce([b"%d" % n for n in range(1, 5)])
    assert lab.with_(transform=lossy, drops=True).run().complete
    plan = plan_repair(lab.context)
    assert plan.repairs == {}
    named = {one.what: one.reason for one in plan.unrepairable}
    assert "holds another value" in named[f"{lab.source}/0/3 output 0"]
    assert "another output of the record" in named[f"{lab.source}/0/3 output 1"]


@pytest.mark.parametrize("counted", [0, None, 1])
def test_with_drops_only_the_count_of_the_ledger_shows_that_a_record_was_lost(
    make_lab: MakeLab, counted: int | None
) -> None:
    lab = make_lab(partitions=1, drops=True)
    forge(lab, without(7)(correct_outputs()), lambda entry: replace(entry, dropped=counted))
    plan = plan_repair(lab.context)
    if counted == 0:
        assert repair(lab, plan).complete
        assert lab.broken() == set()
    else:
        assert plan.repairs == {}
        assert any("dropped or lost" in one.reason for one in plan.unrepairable)


def test_moved_group_offsets_are_refused(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1)
    forge(lab, without(7)(correct_outputs()))
    commit_group(lab, 17)
    plan = plan_repair(lab.context)
    assert any(one.what == "offsets_match_ledger" for one in plan.unrepairable)
    report = repair(lab, plan)
    assert not report.complete
    assert "the ledger ends at 20, and the group offset is 17" in report.outcomes[0].reason
    assert len(keys(lab)) == 19


def test_nothing_to_repair(lab: Lab) -> None:
    lab.fill(30)
    assert lab.run().complete
    plan = plan_repair(lab.context)
    assert plan.nothing_to_do
    assert repair(lab, plan).outcomes == []


def test_holes_in_several_partitions_are_repaired_in_a_transaction_each(make_lab: MakeLab) -> None:
    """The records were left out by code of the same declared version."""
    lost = f.col("value").cast("string").cast("long") % 7 == 0

    def squares(records: DataFrame) -> DataFrame:
        return records.select("key", "value", "origin")

    lab = make_lab(squares, code_version="1")
    lab.fill(60)
    assert lab.with_(transform=lambda records: squares(records).where(~lost), drops=True).run().complete
    report = repair(lab)
    assert [(o.partition, o.transactions, o.outcome) for o in report.outcomes] == [
        (p, 1, "committed") for p in range(3)
    ]
    assert keys(lab) == list(range(60))
    assert lab.broken() == set()
