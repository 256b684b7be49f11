"""What the window of a proof covers."""

from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.verify.window.window import PartitionWindow, Window


def entry(start: int, end: int) -> LedgerEntry:
    return LedgerEntry("p", "source", 0, start, end, 0, 0, 0, 0, 0, (), "run", 1, 0, "1", 0, 0)


ROWS: list[Genesis | LedgerEntry] = [Genesis("p", 0, 5, {}), entry(5, 8), entry(8, 9), entry(9, 12)]


def test_what_retention_removed_before_a_proof_is_counted() -> None:
    window = PartitionWindow(0, list(ROWS), None, start=8, end=12, log_start=6, code_start=9)
    whole = Window({0: window}, {}, {})
    assert (whole.unprovable, whole.other_code) == (3, 1)
    assert [(r.start, r.end) for r in (*whole.retained, *whole.recomputable)] == [(8, 12), (9, 12)]
    assert [e.start for e in whole.entries] == [8, 9]
