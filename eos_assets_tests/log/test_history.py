"""One row for each run, repair, replay and discard of a ledger."""

from eos_assets.log.history import RunHistory, kind_of
from eos_assets.log.ledger import DISCARDED, REJECTED, REPLAYED, LedgerEntry, LetterEntry, LetterMark, Repair

COMMON = {"pipeline": "p", "topic": "t", "partition": 0, "sinks": (), "run": "r", "run_attempt": 1, "task_attempt": 0}
TIMES = {"code_version": "1", "began_ms": 1000, "ended_ms": 2000}
AMENDED = {**COMMON, **TIMES, "number": 1, "position": 90, "records_out": 2, "skipped": 0}


def letters(*marks: LetterMark) -> LetterEntry:
    return LetterEntry(**AMENDED, marks=marks, by="me")  # type: ignore[arg-type]


def test_a_replay_is_one_that_tried_a_letter_again_and_a_discard_one_that_did_not() -> None:
    discarded = LetterMark(7, DISCARDED, "too old")
    assert kind_of(letters(discarded)) == "discard"
    for outcome in (REPLAYED, REJECTED):
        assert kind_of(letters(discarded, LetterMark(3, outcome))) == "replay"


def test_amendments_show_the_source_records_that_they_concerned() -> None:
    history = RunHistory("replay", "r")
    history.add(letters(LetterMark(7, REPLAYED), LetterMark(3, REJECTED, "again")))
    assert (history.ranges, history.records_in, history.records_out) == ({0: (3, 8)}, 2, 2)
    repaired = RunHistory("repair", "r")
    repair = Repair(**AMENDED, first=5, last=9, records_in=3, dead=1, lost=())  # type: ignore[arg-type]
    repaired.add(repair)
    assert kind_of(repair) == "repair"
    assert (repaired.ranges, repaired.records_in, repaired.dead) == ({0: (5, 10)}, 3, 1)


def test_the_transactions_of_a_run_add_up() -> None:
    history = RunHistory("run", "r")
    for start in (10, 20):
        figures = {"records_in": 10, "records_out": 9, "skipped": 0, "dead": 1, "dropped": 0}
        entry = LedgerEntry(**COMMON, **TIMES, **figures, start=start, next=start + 10)  # type: ignore[arg-type]
        assert kind_of(entry) == "run"
        history.add(entry)
    assert history.ranges == {0: (10, 30)}
    assert (history.transactions, history.records_in, history.records_out, history.dead) == (2, 20, 18, 2)
