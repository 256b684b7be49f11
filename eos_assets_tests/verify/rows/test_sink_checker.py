"""Records of the sinks beside the map rows that name them: each violation is found, with its place."""

import itertools
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.rows.sink_checker import SinkChecker
from eos_assets.verify.scope import NAMED, RECORD, PartitionScope, ProofScope

#: Topic number, partition and offset.
Place = tuple[int, int, int]
#: Kind → its number and its texts.
Observed = dict[str, tuple[int, list[str]]]
FIGURES = {"sink_records", "outputs_with_origin", "sum", "content"}
DEAD_LETTERS = 1
#: Of the two partitions of the sink the first one is that of the keys 0 and 2, the second one that of 1 and 3.
SCOPE = ProofScope(
    {0: PartitionScope(0, 10, 0, 0), 1: PartitionScope(0, 10, 0, 0)}, ["sink", "dead"], [2], compares_dead_letters=True
)


@dataclass(frozen=True)
class Row:
    topic: int
    sink_partition: int
    sink_offset: int
    tag: int
    key: bytes | None = None
    digest: int | None = None
    source_partition: int | None = None
    start: int | None = None
    source_offset: int | None = None
    sequence: int | None = None
    vanished: int | None = None
    replaced: int | None = None


SCHEMA = pa.schema([(name, pa.binary() if name == "key" else pa.int64()) for name in Row.__dataclass_fields__])


def record(place: Place, key: bytes | None = b"0", digest: int = 1) -> Row:
    return Row(*place, RECORD, key, digest)


def name(place: Place, origin: int, source: int = 0, start: int = 0, sequence: int = 0, vanished: int = 0) -> Row:
    return Row(*place, NAMED, None, None, source, start, origin, sequence, vanished)


def observe(scope: ProofScope, rows: Iterable[Row], *cuts: int) -> Observed:
    """What comes of rows in Arrow batches that are cut there."""
    ordered = sorted(rows, key=lambda row: (row.topic, row.sink_partition, row.sink_offset, row.tag))
    whole = pa.RecordBatch.from_pylist([asdict(row) for row in ordered], SCHEMA)
    ends = [0, *sorted(cuts), len(ordered)]
    batches = [whole.slice(low, high - low) for low, high in itertools.pairwise(ends)]
    observed: Observed = {}
    for found in (row for batch in SinkChecker(scope).check(batches) for row in batch.to_pylist()):
        text = found["text"]
        if found["kind"] == "content":
            text += "/{sink_partition}/{sink_offset}: {digest} of {source_partition}/{source_offset}".format(**found)
        n, texts = observed.get(found["kind"], (0, []))
        observed[found["kind"]] = (n + found["n"], sorted([*texts, text] if text else texts))
    return observed


def violations(observed: Observed) -> dict[str, list[str]]:
    found = {kind: counted for kind, counted in observed.items() if kind not in FIGURES}
    assert all(n == len(texts) for n, texts in found.values()), "each has its counter-example"
    return {kind: texts for kind, (_, texts) in found.items()}


#: Two source records have their outputs in each sink partition, a fifth one gave a dead letter.
RECORDS = [
    record((0, 0, 0), b"0", digest=10),
    record((0, 0, 1), b"2", digest=12),
    record((0, 1, 0), b"1", digest=11),
    record((0, 1, 1), b"3", digest=-30),
    record((DEAD_LETTERS, 0, 0), b"4", digest=14),
]
NAMES = [name((0, 0, 0), 0), name((0, 0, 1), 2), name((0, 1, 0), 1), name((0, 1, 1), 3), name((DEAD_LETTERS, 0, 0), 4)]
CLEAN = [*RECORDS, *NAMES]
CONTENT = ["dead/0/0: 0 of 0/4", "sink/0/0: 10 of 0/0", "sink/0/1: 12 of 0/2", "sink/1/0: 11 of 0/1"]


def test_clean_rows_give_figures_sums_and_content_and_no_violation() -> None:
    observed = observe(SCOPE, CLEAN)
    assert violations(observed) == {}
    assert observed["sink_records"][0] == observed["outputs_with_origin"][0] == 5
    assert observed["sum"][1] == [
        '[0, 0, "dead", 0, 1, 0, 0, 14]',
        '[0, 0, "sink", 0, 2, 0, 1, 22]',
        '[0, 0, "sink", 1, 2, 0, 1, 18446744073709551597]',
    ], "source partition, start, topic, partition; count, first, last, digest modulo 2^64"
    assert observed["content"] == (-5, [*CONTENT, "sink/1/1: -30 of 0/3"]), (
        "a dead letter is compared by its origin alone"
    )


END, AFTER = (0, 0, 2), (0, 0, 3)
SINK = "topic=sink, sink_partition"
PLACE, PLACE_AFTER = f"{SINK}=0, sink_offset=2", f"{SINK}=0, sink_offset=3"
ORIGIN = "source_partition=0, source_offset"
SHARED, DECLARES = replace(SCOPE, shared_sink=True), replace(SCOPE, declares_partitions=True)
EXPIRED = replace(SCOPE, expired={(0, 0): 2})
FALLS = "ordered_within_partition"
#: What is added to the clean rows, the scope, and the violations that are to be found.
SCENARIOS: dict[str, tuple[list[Row], ProofScope, dict[str, list[str]]]] = {
    "a duplicate": ([record(END), name(END, 2)], SCOPE, {FALLS: [f"{PLACE}, {ORIGIN}=2, before=2"]}),
    "a record of two origins": (
        [record(END), name(END, 4), name(END, 5)],
        SCOPE,
        {"no_duplicates": [f"{PLACE}, origins=2"]},
    ),
    "a loss": ([name(END, 4)], SCOPE, {"none_missing": [PLACE]}),
    "a torn transaction": (
        [name(END, 4), name(AFTER, 5), name((0, 1, 2), 6)],
        SCOPE,
        {"none_missing": [PLACE, PLACE_AFTER, f"{SINK}=1, sink_offset=2"]},
    ),
    "a swap": (
        [record(END), name(END, 6), record(AFTER), name(AFTER, 4)],
        SCOPE,
        {FALLS: [f"{PLACE_AFTER}, {ORIGIN}=4, before=6"]},
    ),
    "a wrong sequence": (
        [record(END), name(END, 4, sequence=1), record(AFTER), name(AFTER, 4)],
        SCOPE,
        {FALLS: [f"{PLACE_AFTER}, {ORIGIN}=4, before=4"]},
    ),
    "two outputs of one source record": (
        [record(END), name(END, 4), record(AFTER), name(AFTER, 4, sequence=1)],
        SCOPE,
        {},
    ),
    "source partitions that alternate": (
        [record(END), name(END, 0, source=1), record(AFTER), name(AFTER, 4)],
        SCOPE,
        {},
    ),
    "an invented record": ([record(END)], SCOPE, {"none_invented": [PLACE]}),
    "an invented record without a key": ([record(END, None)], SCOPE, {"none_invented": [PLACE]}),
    "an invented dead letter": (
        [record((DEAD_LETTERS, 0, 1))],
        SCOPE,
        {"none_invented": ["topic=dead, sink_partition=0, sink_offset=1"]},
    ),
    "a record of another writer in a shared sink": ([record(END)], SHARED, {}),
    "a wrong partition": ([record(END, b"1"), name(END, 4)], SCOPE, {"routed_correctly": [f"{PLACE}, expected=1"]}),
    "a partition that the transform declares": ([record(END, b"1"), name(END, 4)], DECLARES, {}),
    "a record without a key in another partition than its origin": (
        [record(END, None), name(END, 5, source=1)],
        SCOPE,
        {"routed_correctly": [f"{PLACE}, expected=1"]},
    ),
    "a record of an expired transaction": ([record(END)], EXPIRED, {}),
    "an invented record after what expired": ([record(AFTER)], EXPIRED, {"none_invented": [PLACE_AFTER]}),
    "a loss among what expired": ([name(END, 4)], EXPIRED, {"none_missing": [PLACE]}),
    "a newer transaction": ([record(END), name(END, 10, start=10)], SCOPE, {}),
    "a newer transaction that is not visible yet": ([name(END, 10, start=10)], SCOPE, {}),
    "a source partition that is not covered": ([record(END), name(END, 0, source=2)], SCOPE, {}),
}


@pytest.mark.parametrize(("added", "scope", "expected"), SCENARIOS.values(), ids=SCENARIOS)
def test_exactly_the_violations_are_found_wherever_rows_are_cut(
    added: list[Row], scope: ProofScope, expected: dict[str, list[str]]
) -> None:
    rows = [*CLEAN, *added]
    whole = observe(scope, rows)
    assert violations(whole) == expected
    assert all(observe(scope, rows, cut, cut) == whole for cut in range(len(rows) + 1)), "also around an empty batch"


def test_maps_of_source_partitions_that_were_added_since_are_not_covered() -> None:
    assert violations(observe(SCOPE, [*CLEAN, record(END), name(END, 0, source=3)])) == {}


@pytest.mark.parametrize(
    ("scope", "row", "content"),
    [
        (SCOPE, None, ["sink/0/2: 1 of None/None"]),
        (SHARED, None, []),
        (EXPIRED, None, []),
        (SCOPE, name(END, 4), ["sink/0/2: 1 of 0/4"]),
        (SCOPE, name(END, 4, vanished=1), []),
        (SCOPE, name(END, 10, start=10), []),
    ],
    ids=["invented", "of another writer", "expired", "named", "of a vanished source record", "newer"],
)
def test_a_record_is_compared_only_if_running_the_transform_again_must_give_it(
    scope: ProofScope, row: Row | None, content: list[str]
) -> None:
    rows = [*CLEAN, record(END), *([row] if row else [])]
    assert observe(scope, rows)["content"][1] == sorted([*CONTENT, "sink/1/1: -30 of 0/3", *content])


def test_outputs_of_other_code_and_dead_letters_that_are_not_repeatable_are_not_compared() -> None:
    scope = replace(SCOPE, partitions={0: PartitionScope(0, 10, 0, recompute_start=2)}, compares_dead_letters=False)
    observed = observe(scope, [*CLEAN, record(END), name(END, 0, sequence=1)])
    assert observed["content"][1] == ["sink/0/1: 12 of 0/2", "sink/1/1: -30 of 0/3"]


def test_all_violations_are_counted_and_the_first_ones_shown() -> None:
    n, texts = observe(SCOPE, [record((0, 0, offset)) for offset in range(3 * SHOWN)], SHOWN // 2)["none_invented"]
    assert (n, len(texts)) == (3 * SHOWN, SHOWN)
    assert set(texts) == {f"topic=sink, sink_partition=0, sink_offset={offset}" for offset in range(SHOWN)}


places = st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 3))
records = st.builds(record, places, st.sampled_from([None, b"0", b"1"]), st.integers(-2, 2))
names = st.builds(name, places, *(st.integers(0, n) for n in (3, 2)), st.sampled_from([0, 5, 10]), st.integers(0, 1))
scopes = st.builds(replace, st.just(SCOPE), shared_sink=st.booleans(), expired=st.sampled_from([{}, {(0, 0): 1}]))


@given(scopes, st.lists(records, max_size=8, unique_by=lambda r: (r.topic, r.sink_partition, r.sink_offset)), st.data())
def test_the_result_does_not_depend_on_where_batches_are_cut(
    scope: ProofScope, some: list[Row], data: st.DataObject
) -> None:
    rows = [*some, *data.draw(st.lists(names, max_size=8))]
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=5))
    assert observe(scope, rows, *cuts) == observe(scope, rows)


def repaired(place: Place, origin: int, number: int = 1) -> Row:
    """A row of the map of a repair."""
    return name(place, origin, start=-number)


def lost(place: Place, origin: int, start: int = 0) -> Row:
    """A map row that a later repair replaces."""
    return replace(name(place, origin, start=start), replaced=1)


REPAIRED = [
    *(record((0, 0, 0)), name((0, 0, 0), 0)),
    lost((0, 0, 1), 2),
    *(record((0, 0, 2), digest=4), name((0, 0, 2), 4)),
    *(record((0, 0, 3), digest=2), repaired((0, 0, 3), 2)),
]


def test_a_repaired_record_may_follow_later_ones() -> None:
    observed = observe(SCOPE, REPAIRED)
    assert violations(observed) == {}
    assert observed["sum"][1] == ['[0, -1, "sink", 0, 1, 3, 3, 2]', '[0, 0, "sink", 0, 2, 0, 2, 5]']


def test_without_its_repair_a_lost_record_is_missing() -> None:
    rows = [replace(row, replaced=None) for row in REPAIRED[:-2]]
    assert violations(observe(SCOPE, rows)) == {"none_missing": ["topic=sink, sink_partition=0, sink_offset=1"]}


def test_no_other_record_may_follow_later_ones() -> None:
    rows = [*REPAIRED, record((0, 0, 4)), name((0, 0, 4), 3)]
    assert set(violations(observe(SCOPE, rows))) == {"ordered_within_partition"}


def test_the_records_of_one_repair_are_in_order() -> None:
    rows = [*REPAIRED, record((0, 0, 4)), repaired((0, 0, 4), 1)]
    assert set(violations(observe(SCOPE, rows))) == {"ordered_within_partition"}
    rows[-1] = repaired((0, 0, 4), 1, number=2)
    assert violations(observe(SCOPE, rows)) == {}


def test_a_record_that_was_repaired_although_it_is_visible_is_a_duplicate() -> None:
    rows = [*REPAIRED, record((0, 0, 1))]
    assert violations(observe(SCOPE, rows)) == {
        "no_duplicates": ["topic=sink, sink_partition=0, sink_offset=1, repaired=1"]
    }


def test_a_repair_of_a_transaction_outside_of_the_window_is_not_checked() -> None:
    later = replace(SCOPE, partitions={0: PartitionScope(5, 10, 5, 5)})
    assert violations(observe(later, REPAIRED)) == {}
    assert "outputs_with_origin" not in observe(later, REPAIRED)


def test_a_replayed_record_has_the_content_that_the_code_of_its_replay_gives() -> None:
    """Source record 4 gave a dead letter, and amendment 1 replayed it. Another code has another content."""
    replayed = [record(END, b"0", digest=40), name(END, 4, start=-1, sequence=1)]
    again = replace(SCOPE, replayed=frozenset({(0, 4)}), replayed_again=frozenset({(0, 4)}))
    by_other_code = replace(again, replayed_again=frozenset())
    without_letter = [content for content in [*CONTENT, "sink/1/1: -30 of 0/3"] if not content.startswith("dead")]
    observed = observe(again, [*CLEAN, *replayed])
    assert violations(observed) == {}
    assert sorted(observed["content"][1]) == sorted([*without_letter, "sink/0/2: 40 of 0/4"])
    assert sorted(observe(by_other_code, [*CLEAN, *replayed])["content"][1]) == sorted(without_letter)
