"""What the provenance maps of a window claim, and what must not be decided from totals."""

import itertools
from collections.abc import Iterable
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds
from eos_assets.log.corrupt_entry import CorruptEntry
from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.log.provenance import SKIPPED, ProvenanceMap
from eos_assets.verify.scope import PartitionScope, ProofScope
from eos_assets.verify.totals import map_reader
from eos_assets.verify.totals.map_reader import MapClaims, MapReader
from eos_assets.verify.totals.total import Total, UndecidedError, hash_rows, total
from eos_assets.verify.window.window import PartitionWindow, Window

TOPIC = "provenance"
#: The transactions of each of two source partitions.
TRANSACTIONS = ((0, 4), (4, 10))
SCOPE = ProofScope({0: PartitionScope(0, 10, 0, 0), 1: PartitionScope(0, 10, 0, 0)}, ["sink", "dead"], [2])
#: Sink offset, source offset, sequence.
Row = tuple[int, int, int]


def mapped(*rows: Row, start: int = 0, partition: int = 0, topic: str = "sink", source: int = 0) -> ProvenanceMap:
    return ProvenanceMap(
        source, start, topic, partition, *(np.array(column, np.int64) for column in zip(*rows, strict=True))
    )


def skips(*offsets: int, start: int = 0) -> ProvenanceMap:
    return mapped(*((-1, offset, 0) for offset in offsets), start=start, partition=-1, topic=SKIPPED)


def entry(partition: int, start: int, end: int) -> LedgerEntry:
    return LedgerEntry("p", "source", partition, start, end, 0, 0, 0, 0, 0, (), "run", 1, 0, "1", 0, 0)


def window(transactions: Iterable[tuple[int, int]], end: int) -> Window:
    """Two source partitions with these transactions, and provenance up to this offset."""
    partitions = {
        p: PartitionWindow(
            p, [Genesis("p", p, 0, {}), *(entry(p, *t) for t in transactions)], None, start=0, end=1 << 40
        )
        for p in SCOPE.partitions
    }
    return Window(partitions, {TOPIC: dict.fromkeys(SCOPE.partitions, Bounds(0, end, end))}, {})


def read(
    *maps: ProvenanceMap,
    scope: ProofScope = SCOPE,
    isolates: bool = False,
    transactions: Iterable[tuple[int, int]] = TRANSACTIONS,
    end: int = 100,
) -> MapClaims:
    """The claims of maps that are in the partition of their source partition, in this order."""
    values = [(one.source_partition, value) for one in maps for value in one.messages()]
    messages = [Message(TOPIC, partition, offset, value=value) for offset, (partition, value) in enumerate(values)]
    reader = MapReader(Connection("nowhere:9092"), TOPIC, window(transactions, end), scope, isolates=isolates)
    with patch.object(map_reader, "read_partitions", return_value=iter(messages)) as streams:
        claims = reader.read()
    assert streams.call_args.args[1] == {(TOPIC, p): 0 for p in SCOPE.partitions}
    return claims


def sum_of(*origins: tuple[int, int]) -> Total:
    """The total of source offsets and partitions."""
    return total(hash_rows(*(np.array(column, np.int64) for column in zip(*origins, strict=True))))


#: Of the first transaction: outputs in both sink partitions, three of one record beside a skip, and a dead letter.
FIRST = [
    mapped((0, 0, 0), (1, 1, 0), (2, 1, 1)),
    mapped((0, 1, 2), partition=1),
    skips(1, 2),
    mapped((0, 3, 0), topic="dead"),
]
SECOND = mapped((4, 4, 0), (5, 9, 0), start=4)
ELSEWHERE = mapped((3, 0, 0), source=1)
CLEAN = [*FIRST, ELSEWHERE, SECOND]
ORIGINS = [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (9, 0), (0, 1)]


def test_the_claims_of_clean_maps() -> None:
    claims = read(*CLEAN)
    assert (claims.named, claims.newer, claims.set_aside) == (8, 0, [])
    assert claims.origins == sum_of(*ORIGINS), "each origin once"
    assert claims.rows == sum_of(*ORIGINS, (1, 0), (1, 0), (1, 0)), "each row"
    assert claims.per_transaction == {(0, 0): 4, (0, 4): 2, (1, 0): 1}
    messages = {
        place: [(p.first, p.source_partition, p.start, p.in_scope) for p in some]
        for place, some in claims.messages.items()
    }
    assert messages == {
        (0, 0): [(0, 0, 0, True), (3, 1, 0, True), (4, 0, 4, True)],
        (0, 1): [(0, 0, 0, True)],
        (1, 0): [(0, 0, 0, True)],
    }


def test_origins_that_are_gone_and_rows_of_other_code_are_not_claimed() -> None:
    claims = read(
        *CLEAN,
        scope=replace(
            SCOPE, partitions={**SCOPE.partitions, 0: PartitionScope(0, 10, source_start=1, recompute_start=4)}
        ),
    )
    assert claims.origins == sum_of(*ORIGINS[1:])
    assert claims.rows == sum_of((4, 0), (9, 0), (0, 1))
    assert claims.per_transaction[0, 0] == 3


def test_a_newer_transaction_is_counted_and_kept_for_the_sinks() -> None:
    claims = read(*CLEAN, mapped((6, 10, 0), (7, 11, 0), start=10), skips(12, start=10))
    assert (claims.newer, claims.named, claims.origins) == (3, 8, sum_of(*ORIGINS))
    assert not claims.messages[0, 0][-1].in_scope


def test_maps_of_a_topic_that_is_gone_claim_their_origins_alone() -> None:
    claims = read(mapped((0, 0, 0), topic="former"))
    assert (claims.named, dict(claims.messages), claims.origins) == (0, {}, sum_of((0, 0)))


def test_maps_at_or_past_the_end_of_the_window_are_left_to_the_next_proof() -> None:
    claims = read(*CLEAN, end=4)
    assert (claims.named, claims.per_transaction) == (5, {(0, 0): 4})


def test_origins_of_which_nothing_came_but_dead_letters_are_set_aside_where_failures_are_isolated() -> None:
    both = mapped((1, 4, 0), (2, 5, 0), start=4, topic="dead")
    claims = read(*FIRST, mapped((4, 4, 1), start=4), both, isolates=True)
    assert claims.set_aside == [(0, 3), (0, 5)]
    with patch.object(map_reader, "MOST_SET_ASIDE", 1), pytest.raises(UndecidedError, match="too many origins"):
        read(*FIRST, both, isolates=True)


ORDER = "not in the order of their origins"
INCREMENTAL = replace(SCOPE, incremental=True, partitions={0: PartitionScope(4, 10, 4, 4, proven=4)})
WIDE = replace(SCOPE, partitions={0: PartitionScope(0, 1 << 40, 0, 0)})
#: The maps, and why they cannot be decided from totals.
SCENARIOS: dict[str, tuple[list[ProvenanceMap], str]] = {
    "a transaction without an entry": ([*CLEAN, mapped((6, 6, 0), start=6)], "without an entry"),
    "a transaction that is mapped again": ([*CLEAN, mapped((6, 0, 0))], "mapped twice"),
    "a transaction that goes on after a newer one": (
        [mapped((0, 0, 0)), mapped((9, 10, 0), start=10), mapped((1, 1, 0))],
        "mapped twice",
    ),
    "transactions that change places": ([SECOND, *FIRST], "mapped twice"),
    "a message that comes twice": ([FIRST[0], FIRST[0]], ORDER),
    "an origin in front of the transaction": ([*FIRST, mapped((6, 3, 1), start=4)], "outside of its transaction"),
    "an origin after the transaction": ([mapped((0, 4, 0))], "outside of its transaction"),
    "a skip after the transaction": ([skips(4)], "outside of its transaction"),
    "a swap": ([mapped((0, 1, 0), (1, 0, 0))], ORDER),
    "a swap over two messages": ([mapped((0, 1, 0)), mapped((1, 0, 0))], ORDER),
    "a swap of dead letters": ([mapped((0, 1, 0), (1, 0, 0), topic="dead")], ORDER),
    "sink offsets that fall": ([mapped((1, 0, 0), (0, 1, 0))], ORDER),
    "sink offsets that fall over two transactions": ([mapped((7, 0, 0)), SECOND], ORDER),
    "a record of two origins": ([mapped((0, 0, 0), (0, 1, 0))], ORDER),
    "a duplicate": ([mapped((0, 0, 0), (1, 0, 0))], ORDER),
    "a wrong sequence": ([mapped((0, 0, 1), (1, 0, 0))], ORDER),
    "a duplicate in another partition": (
        [mapped((0, 0, 0), (1, 1, 0)), mapped((0, 1, 0), partition=1)],
        "two outputs of one sequence",
    ),
    "a duplicate in another topic": (
        [mapped((0, 1, 0)), mapped((0, 1, 0), topic="dead")],
        "two outputs of one sequence",
    ),
    "a negative sequence": ([mapped((0, 0, -1))], "do not fit"),
}


@pytest.mark.parametrize(("maps", "why"), SCENARIOS.values(), ids=SCENARIOS)
def test_maps_that_contradict_themselves_or_the_ledger_are_not_decided(maps: list[ProvenanceMap], why: str) -> None:
    with pytest.raises(UndecidedError, match=why):
        read(*maps)


def test_sequences_that_overflow_with_their_offsets_are_not_decided() -> None:
    wide = mapped((0, 0, 0), (1, 1 << 32, (1 << 31) - 1))
    with pytest.raises(UndecidedError, match="do not fit into one integer"):
        read(wide, scope=WIDE, transactions=[(0, 1 << 40)])


def test_a_transaction_that_was_proven_before_must_not_be_mapped_again() -> None:
    assert read(SECOND, scope=INCREMENTAL).named == 2
    assert read(skips(2), SECOND, scope=INCREMENTAL).newer == 0, "a skip is no output"
    assert read(*FIRST, SECOND, scope=replace(INCREMENTAL, incremental=False)).named == 2, "it has expired"
    with pytest.raises(UndecidedError, match="proven before"):
        read(FIRST[0], SECOND, scope=INCREMENTAL)


def test_transactions_that_overlap_are_not_decided() -> None:
    maps = [mapped((0, 0, 0)), mapped((1, 2, 0), start=2)]
    with pytest.raises(UndecidedError, match="overlaps"):
        read(*maps, transactions=[(0, 4), (2, 10)])
    read(*maps, transactions=[(0, 2), (2, 10)])


def test_a_transaction_that_overlaps_what_was_proven_is_not_decided() -> None:
    scopes = {0: PartitionScope(2, 10, 2, 2, proven=4)}
    with pytest.raises(UndecidedError, match="overlaps"):
        read(
            mapped((1, 5, 0), start=2),
            scope=replace(SCOPE, partitions=scopes, incremental=True),
            transactions=[(2, 10)],
        )
    read(mapped((1, 5, 0), start=2), scope=replace(SCOPE, partitions=scopes), transactions=[(2, 10)])


def test_a_swap_in_a_sink_whose_name_is_that_of_skips_is_not_decided() -> None:
    with pytest.raises(UndecidedError):
        read(mapped((0, 1, 0), (1, 0, 0), topic=SKIPPED), scope=replace(SCOPE, topics=[SKIPPED, "dead"]))


def test_maps_that_are_too_large_for_tasks_are_not_decided() -> None:
    with patch.object(map_reader, "LARGEST_BYTES", 1000), pytest.raises(UndecidedError, match="too large"):
        read(*CLEAN)


def test_a_message_that_is_not_a_map_is_an_error_with_its_place() -> None:
    reader = MapReader(Connection("nowhere:9092"), TOPIC, window(TRANSACTIONS, 100), SCOPE, isolates=False)
    with pytest.raises(CorruptEntry, match="provenance/1 offset 7"):
        reader.decode(Message(TOPIC, 1, 7, value=b"{}"))


@given(st.lists(st.integers(0, 3), min_size=2, max_size=20), st.data())
def test_claims_do_not_depend_on_where_a_map_is_cut_into_messages(origins: list[int], data: st.DataObject) -> None:
    rows = [(offset, origin, offset) for offset, origin in enumerate(sorted(origins))]
    cuts = [0, *sorted(data.draw(st.sets(st.integers(1, len(rows) - 1)))), len(rows)]
    whole, pieces = read(mapped(*rows)), read(*(mapped(*rows[low:high]) for low, high in itertools.pairwise(cuts)))
    assert len(pieces.messages[0, 0]) == len(cuts) - 1
    assert replace(pieces, messages=whole.messages) == whole
