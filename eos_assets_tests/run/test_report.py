"""The report of a run in one sentence."""

from eos_assets.declare.modes import Mode
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.log.ledger import LedgerEntry
from eos_assets.run.report import RunReport

DAGSTER_RUN = "3f2a51c0-7d0e-4b54-9f5a-0d6c3b0b2f11"
#: 2026-11-19 04:31:07 UTC.
ENDED_MS = 1_795_062_667_000


def entry(partition: int, end: int, run: str = DAGSTER_RUN, ended_ms: int = ENDED_MS) -> LedgerEntry:
    return LedgerEntry("squares", "datasource", partition, 0, end, end, end, 0, 0, 0, (), run, 1, 0, "1", 0, ended_ms)


def report(*previous: LedgerEntry) -> RunReport:
    by_partition = {entry.partition: entry for entry in previous}
    return RunReport("run", "squares", Mode.EXACTLY_ONCE, previous=by_partition, complete=True)


def test_a_run_without_new_records_names_the_run_that_committed_everything_and_when() -> None:
    assert str(report(entry(0, 1200), entry(1, 1180, ended_ms=ENDED_MS - 5000))) == (
        "squares: nothing new; everything up to datasource/0@1200, /1@1180 was committed by run 3f2a51c0 at "
        "2026-11-19 04:31:07 UTC"
    )


def test_each_run_that_committed_last_is_named_with_its_partitions() -> None:
    other = entry(1, 7, run="ab12cd34ef56", ended_ms=ENDED_MS + 1000)
    assert report(entry(0, 5), other, entry(2, 9)).nothing_new() == (
        "nothing new; everything up to datasource/0@5, /2@9 was committed by run 3f2a51c0 at 2026-11-19 04:31:07 UTC; "
        "datasource/1@7 was committed by run ab12cd34 at 2026-11-19 04:31:08 UTC"
    )


def test_a_run_that_finds_nothing_and_no_commit_reports_that() -> None:
    assert str(report()) == "squares: nothing new; nothing was committed before"


def test_a_run_that_finds_nothing_names_who_holds_back_the_source() -> None:
    held = report(entry(0, 5))
    held.held_back = {0: "datasource/0 is held back at offset 5 by producer 7"}
    assert str(held).endswith(" UTC; datasource/0 is held back at offset 5 by producer 7")


def test_a_run_that_committed_reports_its_figures() -> None:
    done = report(entry(0, 5))
    done.planned = {0: OffsetRange(0, 5, 12)}
    done.entries = [entry(0, 12, run="run")]
    assert str(done) == "squares: complete; 12 records in, 12 out, in 1 transaction(s) of run run"
    assert done.last_entries[0].run == "run", "its own entry is later than the previous one"
