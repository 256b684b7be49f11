"""The sums of all observations: violations with their first examples, and content that differs from the transform's."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.rows.summary import differences, summarize_batches

SINK = pa.struct([("sink_partition", pa.int32()), ("sink_offset", pa.int64())])
SOURCE = pa.struct([("source_partition", pa.int32()), ("source_offset", pa.int64())])
NUMBERS = [("lost", pa.int64()), ("more", pa.int64())]
SCHEMA = pa.schema([("kind", pa.string()), ("text", pa.string()), *NUMBERS, ("sink", SINK), ("source", SOURCE)])

Row = dict[str, Any]
#: Kind → its number and its examples.
Counted = dict[str, tuple[int, list[str]]]


def violation(kind: str, text: str, n: int = 1) -> Row:
    return {"kind": kind, "text": text, "lost": n, "more": 0, "sink": None, "source": None}


def content(lost: int, more: int, number: int = 0) -> Row:
    """One content that the transform gives as often as it is lost, and the sink holds as often as it is too many."""
    sink = {"sink_partition": 1, "sink_offset": 20 + number} if more else None
    source = {"source_partition": 0, "source_offset": number} if lost else None
    return {"kind": "content", "text": "sink", "lost": lost, "more": more, "sink": sink, "source": source}


def batch(rows: Iterable[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), SCHEMA)


def counted(batches: Iterable[pa.RecordBatch]) -> Counted:
    found: Counted = {}
    for row in (row for one in batches for row in one.to_pylist()):
        n, examples = found.get(row["kind"], (0, []))
        found[row["kind"]] = (n + row["n"], examples + row["examples"])
    return found


LOST, MORE = "lost: source record 0/0 → sink", "too many: sink/1/20"
MOVED = "moved: sink/1/20 of source record 0/0"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (content(lost=0, more=0), {}),
        (content(lost=1, more=0), {"lost": (1, [LOST])}),
        (content(lost=0, more=2), {"too many": (2, [MORE])}),
        (content(lost=1, more=1), {"moved": (1, [MOVED])}),
        (content(lost=3, more=1), {"moved": (1, [MOVED]), "lost": (2, [LOST])}),
        (content(lost=1, more=3), {"moved": (1, [MOVED]), "too many": (2, [MORE])}),
    ],
    ids=["equal", "lost", "too many", "moved", "moved and lost", "moved and too many"],
)
def test_content_that_differs_is_lost_too_many_or_moved(row: Row, expected: Counted) -> None:
    assert counted(differences(batch([row]))) == expected
    assert counted(summarize_batches([batch([row])])) == expected


def test_a_lost_and_another_invented_content_do_not_cancel_out() -> None:
    found = counted(summarize_batches([batch([content(lost=1, more=0), content(lost=0, more=1, number=1)])]))
    assert found == {"lost": (1, [LOST]), "too many": (1, ["too many: sink/1/21"])}


def test_all_differences_are_counted_and_the_first_ones_shown() -> None:
    n, examples = counted(summarize_batches([batch(content(2, 0, number) for number in range(2 * SHOWN))]))["lost"]
    assert n == 4 * SHOWN
    assert examples == [f"lost: source record 0/{number} → sink" for number in range(SHOWN)]


def test_violations_are_added_up_by_kind_and_the_first_ones_shown() -> None:
    rows = [violation("none_missing", f"source_offset={number}", n=3) for number in range(2 * SHOWN)]
    found = counted(summarize_batches([batch([*rows, violation("no_duplicates", "sink_offset=1"), content(1, 0)])]))
    assert found == {
        "none_missing": (6 * SHOWN, [f"source_offset={number}" for number in range(SHOWN)]),
        "no_duplicates": (1, ["sink_offset=1"]),
        "lost": (1, [LOST]),
    }


@pytest.mark.parametrize("kind", ["sum", "dropped"])
def test_the_sums_of_transactions_are_all_kept(kind: str) -> None:
    texts = [f"[0, {number}]" for number in range(3 * SHOWN)]
    assert counted(summarize_batches([batch(violation(kind, text, n=0) for text in texts)])) == {kind: (0, texts)}


def test_a_figure_has_no_examples() -> None:
    rows = [violation("sink_records", "", n=5), violation("sink_records", "", n=7)]
    assert counted(summarize_batches([batch(rows)])) == {"sink_records": (12, [])}


rows = st.one_of(
    st.builds(violation, st.sampled_from(["none_missing", "sum"]), st.sampled_from(["", "a", "b"]), st.integers(0, 3)),
    st.builds(content, st.integers(0, 2), st.integers(0, 2), st.integers(0, 5)),
)


@given(st.lists(rows, max_size=SHOWN), st.data())
def test_counts_and_examples_do_not_depend_on_where_batches_are_cut(rows: list[Row], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    assert counted(summarize_batches([batch(rows[:cut]), batch(rows[cut:])])) == counted(
        summarize_batches([batch(rows)])
    )
