"""The audit tables: each transaction once, complete after a crash, rebuilt on request, and compared with the ledger."""

import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.audit import increment
from eos_assets.audit.check import compare_with_ledger
from eos_assets.audit.increment import Increment
from eos_assets.audit.tables import MARK_COLUMNS, AuditTables
from eos_assets.cli.audit import query
from eos_assets.orchestration.checks import AUDIT_CHECK
from eos_assets.platform.project import project_root
from eos_assets_tests.orchestration.platform import Platform, evaluations
from eos_assets_tests.run.lab import squared


def with_headers(records: DataFrame) -> DataFrame:
    header = f.struct(f.lit("h").alias("key"), f.lit(b"1").alias("value"))
    return squared(records).withColumn("headers", f.array(header))


def tables_of(platform: Platform) -> AuditTables:
    return AuditTables(platform.pipeline, platform.lab.spark, platform.lab.connection, platform.lake)


@pytest.mark.connect
def test_the_audit_tables_hold_each_transaction_once_and_can_be_rebuilt(platform: Platform) -> None:
    lab, tables = platform.lab, tables_of(platform)
    lab.fill(300)
    lab.run()  # committed, and then a crash before any table was written
    tables.update()
    before = sorted(map(str, tables.read("audit_deliveries").collect()))
    assert len(before) == 300
    tables.update()
    assert sorted(map(str, tables.read("audit_deliveries").collect())) == before, "nothing new adds nothing"
    lab.fill(60)
    once_dead = [("eos.error", b"another reason"), ("eos.pipeline", b"another"), ("eos.origin", b"elsewhere/0/0")]
    lab.produce([b"no number"], headers=once_dead)
    lab.run()
    states = {state.name: state.rows for state in tables.update()}
    assert states["audit_deliveries"] == 361
    assert states["audit_dead_letters"] == 1
    (letter,) = tables.read("audit_dead_letters").collect()
    assert (bytes(letter.value), letter.reason) == (b"no number", "no integer")
    assert letter.origin.startswith(f"{lab.source}/0/")
    assert compare_with_ledger(tables).finding.holds
    everything = sorted(map(str, tables.read("audit_deliveries").collect()))
    tables.update(rebuild=True)
    assert sorted(map(str, tables.read("audit_deliveries").collect())) == everything
    tables.context.spark.sql(f"delete from delta.`{tables.path('audit_deliveries')}` where source_offset = 5")
    found = compare_with_ledger(tables).finding
    assert not found.holds
    assert "outputs" in found.examples[0]
    lab.produce(b"%d" % number for number in range(30))
    lab.run()
    states = {state.name: state.rows for state in tables.update()}
    assert states["audit_deliveries"] == 361 - 3 + 30, "after a commit of another writer it continues from the rows"
    tables.update(rebuild=True)
    tables.context.spark.sql(f"delete from delta.`{tables.path('audit_dead_letters')}`")
    found = compare_with_ledger(tables).finding
    assert found.examples == (f"{lab.pipeline.names().dead_letters}/0 offset 0 is not in audit_dead_letters",)


def test_the_tables_are_compared_from_where_the_last_comparison_ended(platform: Platform) -> None:
    for detail in ("3 transactions, ", "3 transactions since the last comparison, "):
        platform.lab.fill(90)
        assert platform.materialize().success
        assert str(evaluations(platform.update_tables())[AUDIT_CHECK].description).startswith(detail)
    assert str(platform.check()[AUDIT_CHECK].description).startswith("0 transactions since the last comparison")
    tables = tables_of(platform)
    tables.context.spark.sql(f"delete from delta.`{tables.path('audit_deliveries')}` where transaction_start = 0")
    assert platform.check()[AUDIT_CHECK].passed, "it was compared before"
    assert not platform.check(full=True)[AUDIT_CHECK].passed


def test_tables_that_are_rebuilt_are_complete_although_the_update_died(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F23: a new ledger, and a crash after the first of its tables."""
    platform.lab.fill(60)
    platform.lab.run()
    tables_of(platform).update()
    lab = platform.lab.with_(generation=2, shared_sink=True)
    lab.create()
    lab.run()
    tables = AuditTables(lab.pipeline, lab.spark, lab.connection, platform.lake)

    def die(_: Increment) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as dying:
        dying.setattr(Increment, "deliveries", die)
        with pytest.raises(RuntimeError, match="killed"):
            tables.update()
    tables.update()
    assert tables.read("audit_deliveries").count() == 60
    assert compare_with_ledger(tables).finding.holds


def test_an_update_that_died_between_two_tables_is_completed_by_the_next(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F23. The transactions have their rows, and their deliveries have none."""
    lab, tables = platform.lab, tables_of(platform)

    def die(_: Increment) -> None:
        raise RuntimeError("killed")

    lab.fill(60)
    lab.run()
    tables.update()
    for _ in range(2):
        lab.fill(60)
        lab.run()
        with monkeypatch.context() as dying:
            dying.setattr(Increment, "deliveries", die)
            with pytest.raises(RuntimeError, match="killed"):
                tables.update()
    assert tables.read("audit_transactions").count() == 9
    assert tables.read("audit_deliveries").count() == 60
    tables.update()
    assert tables.read("audit_deliveries").count() == 180
    assert compare_with_ledger(tables).finding.holds


def test_tables_whose_lake_was_away_are_completed_when_it_is_back(platform: Platform) -> None:
    """F23: runs go on meanwhile, because the ledger is on the brokers."""
    lab, tables, lake = platform.lab, tables_of(platform), Path(platform.lake)
    lake.write_text("where the lake was, no folder can be created")
    lab.fill(60)
    assert lab.run().complete
    with pytest.raises(Exception, match=lake.name):
        tables.update()
    lake.unlink()
    tables.update()
    assert tables.read("audit_deliveries").count() == 60
    assert compare_with_ledger(tables).finding.holds


def test_rows_that_were_deleted_come_back_without_new_ledger_entries(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another writer, or by a rebuild that died: Delta must not skip the next append as one that it has seen."""
    lab, tables = platform.lab, tables_of(platform)
    lab.fill(60)
    lab.run()
    tables.update()
    lab.fill(60)
    lab.run()
    tables.update()
    tables.context.spark.sql(f"delete from delta.`{tables.path('audit_deliveries')}` where transaction_start > 0")
    assert tables.read("audit_deliveries").count() < 120
    states = {state.name: state.rows for state in tables.update()}
    assert states["audit_deliveries"] == tables.read("audit_deliveries").count() == 120

    def die(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as dying:
        dying.setattr("eos_assets.audit.tables.Increment.read", die)
        with pytest.raises(RuntimeError, match="killed"):
            tables.update(rebuild=True)
    assert tables.read("audit_deliveries").count() == 0
    tables.update()
    assert tables.read("audit_deliveries").count() == 120
    assert compare_with_ledger(tables).finding.holds


def test_the_rows_made_by_the_driver_are_those_made_by_spark(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, tables = platform.lab.with_(transform=with_headers), tables_of(platform)
    lab.fill(60)
    lab.produce([b"no number", None], headers=[("a", b"1"), ("b", None)])
    lab.run()
    tables.update()
    tables_before = [sorted(map(str, tables.read(table).collect())) for table in MARK_COLUMNS]
    assert all(tables_before)
    monkeypatch.setattr(increment, "FEW_RECORDS", 0)
    tables.update(rebuild=True)
    assert [sorted(map(str, tables.read(table).collect())) for table in MARK_COLUMNS] == tables_before


def test_deliveries_with_headers_have_the_digests_that_the_ledger_adds_up(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those digests are also the ones that a proof computes: it compares their sums with the ledger."""
    lab, tables = platform.lab.with_(transform=with_headers), tables_of(platform)
    lab.fill(60)
    lab.run()
    tables.update()
    ledger = {
        (entry.partition, entry.start, written.topic, written.partition): int(written.digest)
        for entry in tables.read("audit_transactions").collect()
        for written in entry.sinks
    }
    assert sum_digests(tables) == ledger
    monkeypatch.setattr(increment, "FEW_RECORDS", 0)
    tables.update(rebuild=True)
    assert sum_digests(tables) == ledger, "also where Spark makes the rows"


def sum_digests(tables: AuditTables) -> dict[tuple[int, int, str, int], int]:
    """Source partition, transaction, topic and sink partition → the sum of the digests of its deliveries."""
    sums: dict[tuple[int, int, str, int], int] = {}
    for row in tables.read("audit_deliveries").collect():
        place = (row.source_partition, row.transaction_start, row.topic, row.sink_partition)
        sums[place] = (sums.get(place, 0) + row.digest) % 2**64
    return sums


def test_the_questions_of_the_docs_are_answered(platform: Platform) -> None:
    lab = platform.lab
    lab.fill(60)
    lab.produce([b"no number"])
    lab.run()
    tables = tables_of(platform)
    tables.update()
    page = (project_root(Path(__file__).parent) / "docs" / "platform.md").read_text()
    ((block),) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    questions = [line for line in block.splitlines() if not line.startswith("--")]
    place = lab.read()[0]
    asked = questions[1].replace("'datasink'", f"'{lab.sink}'").replace("sink_partition = 1", "sink_partition = 0")
    asked = asked.replace("sink_offset = 4711", f"sink_offset = {place.offset()}")
    runs, origin, rejected = (query(tables, question)[1] for question in (questions[0], asked, questions[2]))
    assert [row[1:3] for row in runs] == [(3, 60)]
    assert len(origin) == 1
    assert rejected == [("no integer", 1)]


def test_the_audit_tables_of_an_earlier_generation_are_replaced(platform: Platform) -> None:
    platform.lab.fill(300)
    platform.lab.run()
    tables_of(platform).update()
    lab = platform.lab.with_(generation=2, shared_sink=True)
    lab.create()
    tables = AuditTables(lab.pipeline, lab.spark, lab.connection, platform.lake)
    for records, rows in ((10, 30), (None, 300)):
        assert lab.run(max_records=records).complete
        tables.update()
        assert compare_with_ledger(tables).finding.holds
        assert tables.read("audit_deliveries").count() == rows
    assert len(lab.read()) == 600, "the new generation began at the beginning"
    assert lab.broken() == set()
