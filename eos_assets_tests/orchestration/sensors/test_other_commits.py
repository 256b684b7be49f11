"""Which ledger entries a tick reports, and as what. The ledger is given, so no server is needed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg
import pytest

from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.kafka.connection import Connection
from eos_assets.log.ledger import LedgerEntry, WrittenRange
from eos_assets.orchestration.sensors import other_commits
from eos_assets.orchestration.sensors.other_commits import materializations, read_new_entries
from eos_assets_tests.run.lab import squared

PIPELINE = Pipeline("reported", Topic("arrivals"), (Topic("departures"),), squared, version="1")
LEDGER = PIPELINE.names().ledger
WRITTEN = (WrittenRange("departures", 0, 5, 0, 4, 7),)
ENTRY = LedgerEntry("reported", "arrivals", 0, 0, 5, 5, 5, 0, 0, 0, WRITTEN, "mine", 1, 0, "1", 1_000, 2_000)
SECOND = replace(ENTRY, start=5, next=10)


@dataclass(frozen=True)
class Message:
    """An entry at an offset of the first ledger partition."""

    number: int
    entry: LedgerEntry

    def value(self) -> bytes:
        return self.entry.to_json()

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.number

    def topic(self) -> str:
        return LEDGER


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """A ledger with these messages, each followed by the marker of its transaction."""
    messages: list[Message] = []

    def read(_: Connection, starts: dict[Any, int], upto: dict[Any, int], *, limit: int) -> Iterator[Message]:
        for place, start in starts.items():
            yield from [m for m in messages if start <= m.number < upto[place]][:limit]

    monkeypatch.setattr(Connection, "partitions", lambda *_: [0])
    monkeypatch.setattr(other_commits, "stable_ends", lambda *_: {0: 2 * len(messages)})
    monkeypatch.setattr(other_commits, "read_partitions", read)
    return messages


def read(positions: dict[int, int]) -> tuple[list[tuple[int, LedgerEntry]], dict[int, int]]:
    return read_new_entries(PIPELINE, Connection("none:1"), positions)


def test_the_first_tick_reports_the_last_entry_and_later_ones_what_is_new(ledger: list[Message]) -> None:
    assert read({}) == ([], {0: 0})
    ledger += [Message(0, ENTRY), Message(2, SECOND)]
    assert read({}) == ([(2, SECOND)], {0: 4})
    assert read({0: 0}) == ([(0, ENTRY), (2, SECOND)], {0: 4})
    assert read({0: 4}) == ([], {0: 4}), "nothing twice"


def test_a_tick_reads_a_bounded_number_of_entries(ledger: list[Message], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_commits, "ENTRIES_PER_TICK", 1)
    ledger += [Message(0, ENTRY), Message(2, SECOND)]
    assert read({0: 0}) == ([(0, ENTRY)], {0: 1})
    assert read({0: 1}) == ([(2, SECOND)], {0: 3})
    assert read({0: 3}) == ([], {0: 4})


def test_each_run_is_one_materialization_of_each_topic() -> None:
    others = [(0, ENTRY), (2, SECOND), (4, replace(ENTRY, start=10, next=12, run="theirs"))]
    events = [e for e in materializations(PIPELINE, others) if e.asset_key == dg.AssetKey("departures")]
    assert [(event.partition, event.metadata["range"].value) for event in events] == [
        ("0", "[0, 10)"),
        ("0", "[10, 12)"),
    ]
    assert [event.metadata["committed_by"].value for event in events] == ["mine", "theirs"]
    assert events[0].metadata["records_in"].value == 10
    assert events[0].metadata["ledger"].value == f"{LEDGER}/0, offset 2"
    assert len(list(materializations(PIPELINE, others))) == 8, "sink, dead letters, ledger and provenance"
