"""The invariants, each a pure function over what was found in the topics. A finding carries its counter-examples."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from eos_assets.declare.check import Finding
from eos_assets.kafka.offsets import Bounds
from eos_assets.log.ledger import Genesis, LedgerEntry

#: How many counter-examples a finding shows.
SHOWN = 10

#: (source partition, slice start, topic, partition) → (count, first, last, digest) as recomputed from a sink.
Sums = dict[tuple[int, int, str, int], tuple[int, int, int, int]]


@dataclass
class Violations:
    """Collects what breaks one invariant: all are counted, the first few are kept."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, example: str) -> None:
        self.count += 1
        if len(self.examples) < SHOWN:
            self.examples.append(example)

    def finding(self, name: str, holds: str, broken: str, severity: str = "error") -> Finding:
        detail = f"{self.count} {broken}" if self.count else holds
        return Finding(name, not self.count, detail, tuple(self.examples), severity)


def ledger_tiles_source(
    entries: dict[int, Iterable[Genesis | LedgerEntry]], proven: dict[int, int | None] | None = None
) -> Finding:
    """The ranges of the ledger cover [genesis, position) with no gap and no overlap.

    Args:
        entries: source partition → its ledger.
        proven: source partition → the position at the last proof, if the ledger is given from there on.
    """
    wrong, covered = Violations(), 0
    for partition, rows in sorted(entries.items()):
        position = (proven or {}).get(partition)
        for row in rows:
            if isinstance(row, Genesis):
                if position is not None:
                    wrong.add(f"partition {partition}: a second genesis at {row.start}, position {position}")
                position = row.start
            elif position is None:
                wrong.add(f"partition {partition}: the ledger begins with [{row.start}, {row.next}) and has no genesis")
                position = row.next
            else:
                if row.start != position:
                    what = "gap" if row.start > position else "overlap"
                    wrong.add(f"partition {partition}: {what} between {position} and [{row.start}, {row.next})")
                if row.next <= row.start:
                    wrong.add(f"partition {partition}: empty range [{row.start}, {row.next})")
                covered += row.next - row.start
                position = row.next
    return wrong.finding("ledger_tiles_source", f"{covered:,} offsets covered, no gap, no overlap", "gaps or overlaps")


def offsets_match_ledger(positions: Mapping[int, int | None], groups: dict[int, int | None]) -> Finding:
    """The committed group offset is the end of the last ledger entry. A missing one is normal after idle days."""
    wrong = Violations()
    missing = 0
    for partition, position in sorted(positions.items()):
        if partition not in groups:
            continue  # held by an open transaction
        group = groups[partition]
        if group is None:
            missing += position is not None
        elif group != position:
            wrong.add(f"partition {partition}: ledger {position}, group offset {group}")
    told = ", ".join(f"{p}: {o}" for p, o in sorted(positions.items()) if o is not None) or "nothing committed yet"
    note = f"; {missing} group offset(s) absent, the next transaction writes them again" if missing else ""
    return wrong.finding("offsets_match_ledger", f"{told}{note}", "group offsets differ from the ledger")


def ledger_matches_sink(entries: Iterable[LedgerEntry], found: Sums) -> Finding:
    """Counts, first and last offsets and digests in the ledger are those of the visible sink records."""
    wrong, checked = Violations(), 0
    left = dict(found)
    for entry in entries:
        for part in entry.sinks:
            at = (entry.partition, entry.start, part.topic, part.partition)
            there = left.pop(at, (0, -1, -1, 0))
            checked += part.count
            here = (part.count, part.first, part.last, part.digest)
            if there != here:
                wrong.add(
                    f"transaction [{entry.start}, {entry.next}) of partition {entry.partition} says (count, first, "
                    f"last, digest) = {here} for {part.topic}/{part.partition}; the topic has {there}"
                )
    for (source, start, topic, partition), there in left.items():
        wrong.add(f"{topic}/{partition} has {there[0]} records of partition {source} from {start} on without an entry")
    return wrong.finding(
        "ledger_matches_sink", f"{checked:,} records, counts and digests equal", "ledger entries differ"
    )


def dropped_as_told(entries: Iterable[LedgerEntry], found: dict[tuple[int, int], int]) -> Violations:
    """The records that the transform drops, run again, are as many as the ledger says, where it says a number."""
    wrong = Violations()
    for entry in entries:
        dropped = found.get((entry.partition, entry.start), 0)
        if entry.dropped is not None and entry.dropped != dropped:
            wrong.add(
                f"transaction [{entry.start}, {entry.next}) of partition {entry.partition} says that {entry.dropped} "
                f"records were dropped; running the transform again drops {dropped}"
            )
    return wrong


#: Topic → partition → its bounds, at one moment.
Look = dict[str, dict[int, Bounds]]


def held_back(before: Look, after: Look) -> list[tuple[str, int, Bounds]]:
    """The places where a transaction was open at the first look and is still the first open one at the second."""
    return [
        (topic, partition, there)
        for topic, partitions in sorted(after.items())
        for partition, there in sorted(partitions.items())
        for earlier in [before.get(topic, {}).get(partition)]
        if earlier and earlier.stable == there.stable < earlier.high
    ]


def no_open_transactions(before: Look, after: Look, seconds: float, timeout: float) -> Finding:
    """The last stable offset is not held back for longer than the transaction timeout: two looks, not one.

    Args:
        before: the bounds at the first look.
        after: the bounds at the second look.
        seconds: time between the two.
        timeout: the transaction timeout.
    """
    wrong = Violations()
    if seconds >= timeout:
        for topic, partition, there in held_back(before, after):
            wrong.add(f"{topic}/{partition}: open at {there.stable} for {seconds:.0f} s, ends at {there.high}")
    open_now = sum(there.stable < there.high for at in after.values() for there in at.values())
    note = f"{open_now} open, not for long" if open_now else "none open"
    return wrong.finding("no_open_transactions", note, "transactions hold back the last stable offset")


def code_versions(entries: Iterable[LedgerEntry]) -> list[str]:
    """From which source offset on which version of the code holds."""
    last: dict[int, str] = {}
    told: dict[int, list[str]] = defaultdict(list)
    for entry in entries:
        if last.get(entry.partition) != entry.code_version:
            last[entry.partition] = entry.code_version
            told[entry.partition].append(f"from {entry.start}: {entry.code_version}")
    return [f"partition {p}: {'; '.join(lines)}" for p, lines in sorted(told.items())]
