"""One pass along the sinks beside encoded maps: clean records add up, and every violation is named."""

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.log.provenance import ProvenanceMap
from eos_assets.verify.scope import PartitionScope, ProofScope
from eos_assets.verify.totals.map_reader import MapMessage
from eos_assets.verify.totals.sink_pass import Place, SinkPass
from eos_assets.verify.totals.total import Total, hash_rows, total

#: Topic number, partition and offset of a record, its key and its digest.
Record = tuple[int, int, int, bytes | None, int]
Messages = dict[Place, list[MapMessage]]
DEAD_LETTERS = 1
#: Of the two partitions of the sink the first one is that of the keys 0 and 2, the second one that of 1 and 3.
SCOPE = ProofScope(
    {0: PartitionScope(0, 10, 0, 0), 1: PartitionScope(0, 10, 0, 0)}, ["sink", "dead"], [2], compares_dead_letters=True
)


@dataclass(frozen=True)
class Pass:
    """What one pass has found: named records by transaction, and their content."""

    wrong: str
    records: int
    named: int
    content: Total
    sums: list[list[int | str]]


def message(rows: dict[int, int], source: int = 0, start: int = 0, *, in_scope: bool = True) -> MapMessage:
    """A message of a provenance topic, from sink offsets and their source offsets."""
    sink, origins = (np.array(list(offsets), np.int64) for offsets in (rows.keys(), rows.values()))
    (value,) = ProvenanceMap(source, start, "any", 0, sink, origins, np.zeros_like(sink)).messages()
    return MapMessage(int(sink[0]), source, start, in_scope, value)


def run(scope: ProofScope, records: Iterable[Record], messages: Messages, *cuts: int) -> Pass:
    """One pass along records in Arrow batches that are cut there."""
    names = ("topic", "sink_partition", "sink_offset", "key", "digest")
    schema = pa.schema([(name, pa.binary() if name == "key" else pa.int64()) for name in names])
    rows = sorted(records, key=lambda record: record[:3])
    whole = pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
    ends = [0, *sorted(cuts), len(rows)] if rows else []
    (found,) = SinkPass(scope, messages).run(whole.slice(low, high - low) for low, high in itertools.pairwise(ends))
    (_, (wrong, n, named, *content)), *sums = [(row["kind"], json.loads(row["text"])) for row in found.to_pylist()]
    assert {kind for kind, _ in sums} <= {"sum"}
    return Pass(wrong, n, named, Total(*content), sorted(numbers for _, numbers in sums))


#: Each sink partition holds the outputs of both source partitions; there is one dead letter.
RECORDS: list[Record] = [
    (0, 0, 0, b"0", 10),
    (0, 0, 1, b"2", 12),
    (0, 0, 3, b"0", 20),
    (0, 1, 0, b"1", 11),
    (0, 1, 2, b"3", -30),
    (DEAD_LETTERS, 0, 0, b"4", 14),
]
FIRST, SECOND, LETTER = message({0: 0, 1: 2}), message({3: 0}, source=1), message({0: 4})
MESSAGES: Messages = {(0, 0): [SECOND, FIRST], (0, 1): [message({0: 1, 2: 3})], (DEAD_LETTERS, 0): [LETTER]}
#: Digest, source offset, source partition and topic of each record; the digest of a dead letter is not compared.
CONTENT = [(10, 0, 0, 0), (12, 2, 0, 0), (20, 0, 1, 0), (11, 1, 0, 0), (-30, 3, 0, 0), (0, 4, 0, DEAD_LETTERS)]


def sum_of(rows: Iterable[tuple[int, ...]]) -> Total:
    return total(hash_rows(*(np.array(column, np.int64) for column in zip(*rows, strict=True))))


def test_clean_records_add_up_by_content_and_by_transaction() -> None:
    sums: list[list[int | str]] = [
        [0, 0, "dead", 0, 1, 0, 0, 14],
        [0, 0, "sink", 0, 2, 0, 1, 22],
        [0, 0, "sink", 1, 2, 0, 2, 2**64 - 19],
        [1, 0, "sink", 0, 1, 3, 3, 20],
    ]
    assert run(SCOPE, RECORDS, MESSAGES) == Pass("", 6, 6, sum_of(CONTENT), sums)


@pytest.mark.parametrize(
    ("scope", "content"),
    [
        (replace(SCOPE, compares_dead_letters=False), CONTENT[:-1]),
        (
            replace(SCOPE, partitions={**SCOPE.partitions, 0: PartitionScope(0, 10, 0, recompute_start=2)}),
            [*CONTENT[1:3], *CONTENT[4:]],
        ),
        (
            replace(SCOPE, declares_partitions=True),
            [(*row, place) for row, (_, place, *_) in zip(CONTENT, RECORDS, strict=True)],
        ),
    ],
    ids=["dead letters that are not repeatable", "outputs of other code", "declared partitions"],
)
def test_content_is_what_running_the_transform_again_must_give(
    scope: ProofScope, content: list[tuple[int, ...]]
) -> None:
    found = run(scope, RECORDS, MESSAGES)
    assert (found.wrong, found.named, found.content) == ("", 6, sum_of(content))


END: Record = (0, 0, 5, b"0", 1)
LATER: Record = (0, 0, 6, b"0", 1)


def also(*more: MapMessage) -> Messages:
    return {**MESSAGES, (0, 0): [*MESSAGES[0, 0], *more]}


NEWER, FORMER, FIFTH = message({5: 10}, start=10, in_scope=False), message({0: 0}, in_scope=False), message({5: 4})
SHARED, EXPIRED = replace(SCOPE, shared_sink=True), replace(SCOPE, expired={(0, 0): 5})
DECLARES = replace(SCOPE, declares_partitions=True)
UNNAMED, TWICE = "a record that no map names", "a record that two rows of the maps name"
LOST = "a row of the maps without a visible record"
ROUTE = "a record in another partition than that of its key"
#: The scope, what is added to the clean records and maps, and what is wrong, else the records and the named ones.
SCENARIOS: dict[str, tuple[ProofScope, list[Record], list[MapMessage], str | tuple[int, int]]] = {
    "a duplicate that no map names": (SCOPE, [END], [], UNNAMED),
    "an invented dead letter": (SCOPE, [(DEAD_LETTERS, 0, 1, b"4", 1)], [], UNNAMED),
    "an invented record in a partition without maps": (SCOPE, [(DEAD_LETTERS, 1, 0, b"4", 1)], [], UNNAMED),
    "a map that comes twice": (SCOPE, [], [FIRST], TWICE),
    "a record of two origins": (SCOPE, [END], [FIFTH, message({5: 5}, source=1)], TWICE),
    "a loss": (SCOPE, [LATER], [message({5: 4, 6: 5})], LOST),
    "a torn transaction": (SCOPE, [LATER], [message({2: 0}, source=1), message({4: 4, 5: 5, 6: 6})], LOST),
    "a wrong partition": (SCOPE, [(0, 0, 5, b"1", 1)], [FIFTH], ROUTE),
    "a partition that the transform declares": (DECLARES, [(0, 0, 5, b"1", 1)], [FIFTH], (7, 7)),
    "no key, in another partition than its origin": (SCOPE, [(0, 0, 5, None, 1)], [message({5: 4}, source=1)], ROUTE),
    "no key, in the partition of its origin": (SCOPE, [(0, 0, 5, None, 1)], [FIFTH], (7, 7)),
    "a record of another writer in a shared sink": (SHARED, [END], [], (7, 6)),
    "a record of an expired transaction": (EXPIRED, [END], [], (6, 6)),
    "an invented record after what expired": (EXPIRED, [END, LATER], [], UNNAMED),
    "a newer transaction": (SCOPE, [END], [NEWER], (6, 6)),
    "a newer transaction that is not visible yet": (SCOPE, [], [NEWER], (6, 6)),
    "a newer transaction beside an invented record": (SCOPE, [END, LATER], [NEWER], UNNAMED),
}


@pytest.mark.parametrize(("scope", "records", "messages", "expected"), SCENARIOS.values(), ids=SCENARIOS)
def test_a_violation_is_named_wherever_batches_are_cut(
    scope: ProofScope, records: list[Record], messages: list[MapMessage], expected: str | tuple[int, int]
) -> None:
    rows, maps = [*RECORDS, *records], also(*messages)
    whole = run(scope, rows, maps)
    assert (whole.wrong or (whole.records, whole.named)) == expected
    for cut in range(1, len(rows)):
        found = run(scope, rows, maps, cut)
        assert found.wrong == whole.wrong if whole.wrong else found == whole


def test_a_loss_from_the_end_of_a_partition_shows_in_the_number_of_named_records() -> None:
    """The driver compares it with the number of rows in the maps."""
    found = run(SCOPE, [*RECORDS[:2], *RECORDS[3:]], MESSAGES)
    assert (found.wrong, found.named) == ("", 5)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([*RECORDS, END], id="in a batch with a record of a newer transaction"),
        pytest.param(RECORDS, id="in a batch whose records all have their names"),
    ],
)
def test_a_record_that_two_transactions_name_is_found(records: list[Record]) -> None:
    assert run(SCOPE, records, also(FORMER, NEWER)).wrong == "a record that two transactions name"


def test_an_empty_batch_changes_nothing() -> None:
    assert run(SCOPE, RECORDS, MESSAGES, 0, 0) == run(SCOPE, RECORDS, MESSAGES)


places = st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 5))
#: Mostly clean: records that the window names, that others name, that nothing names, and names without a record.
kinds = st.sampled_from(["named", "named other", "named other named", "named unnamed", "named lost", "named misplaced"])


@given(st.sets(places, min_size=1, max_size=15), kinds, st.data())
def test_the_result_does_not_depend_on_where_batches_are_cut(
    some: set[tuple[int, int, int]], kinds: str, data: st.DataObject
) -> None:
    records: list[Record] = []
    named: dict[tuple[Place, int, bool], dict[int, int]] = {}
    for topic, partition, offset in sorted(some):
        kind, source = data.draw(st.sampled_from(kinds.split())), data.draw(st.integers(0, 1))
        if kind != "lost":
            key = b"%d" % (partition ^ (kind == "misplaced"))
            records.append((topic, partition, offset, key, offset))
        if kind != "unnamed":
            named.setdefault(((topic, partition), source, kind != "other"), {})[offset] = offset
    messages: Messages = {}
    for (place, source, in_scope), rows in named.items():
        messages.setdefault(place, []).append(message(rows, source, in_scope=in_scope))
    cuts = data.draw(st.sets(st.integers(1, max(1, len(records) - 1)))) if len(records) > 1 else set()
    whole, cut = (run(SCOPE, records, messages, *where) for where in ((), cuts))
    assert bool(whole.wrong) == bool(cut.wrong), "what is found first may differ"
    assert whole.wrong or whole == cut
