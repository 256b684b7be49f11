"""The invariants over the ledger, each a pure function with its counter-examples in the finding."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from eos_assets.declare.check import Finding
from eos_assets.log.ledger import Amendment, Genesis, LedgerEntry, LetterEntry, Repair

#: How many counter-examples a finding shows.
SHOWN = 10

#: (source partition, start of the transaction, topic, partition) → (count, first, last, digest) in a sink. The start of
#: a repair is minus its number.
Sums = dict[tuple[int, int, str, int], tuple[int, int, int, int]]


@dataclass
class Violations:
    """Counts what violates one invariant and keeps the first examples."""

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
    ledger: Mapping[int, Iterable[Genesis | LedgerEntry]], proven: Mapping[int, int | None] | None = None
) -> Finding:
    """The ranges of the ledger cover [genesis, position) with no gap and no overlap.

    Args:
        ledger: source partition → its ledger.
        proven: source partition → the position at the last proof, if the ledger is given from there on.
    """
    violations, covered = Violations(), 0
    for partition, rows in sorted(ledger.items()):
        position = (proven or {}).get(partition)
        for row in rows:
            if isinstance(row, Genesis):
                if position is not None:
                    violations.add(f"partition {partition}: a second genesis at {row.start}, position {position}")
                position = row.start
                continue
            for violation in tile_violations(row, position):
                violations.add(f"partition {partition}: {violation}")
            covered += row.next - row.start if position is not None else 0
            position = row.next
    return violations.finding(
        "ledger_tiles_source", f"{covered:,} offsets covered, no gap, no overlap", "gaps or overlaps"
    )


def tile_violations(entry: LedgerEntry, position: int | None) -> list[str]:
    """What is wrong with the range of one entry that follows a position."""
    range_of_entry = f"[{entry.start}, {entry.next})"
    if position is None:
        return [f"the ledger begins with {range_of_entry} and has no genesis"]
    violations = []
    if entry.start != position:
        kind = "gap" if entry.start > position else "overlap"
        violations.append(f"{kind} between {position} and {range_of_entry}")
    if entry.next <= entry.start:
        violations.append(f"empty range {range_of_entry}")
    return violations


def offsets_match_ledger(positions: Mapping[int, int | None], group_offsets: Mapping[int, int | None]) -> Finding:
    """The committed group offset is the end of the last ledger entry. A missing one is normal after idle days."""
    violations, missing = Violations(), 0
    for partition, position in sorted(positions.items()):
        if partition not in group_offsets:
            continue  # held by an open transaction
        offset = group_offsets[partition]
        if offset is None:
            missing += position is not None
        elif offset != position:
            violations.add(f"partition {partition}: ledger {position}, group offset {offset}")
    known = ", ".join(f"{p}: {o}" for p, o in sorted(positions.items()) if o is not None) or "nothing committed yet"
    note = f"; {missing} group offset(s) absent, the next transaction writes them again" if missing else ""
    return violations.finding("offsets_match_ledger", f"{known}{note}", "group offsets differ from the ledger")


def ledger_matches_sink(entries: Iterable[LedgerEntry | Amendment], sums: Sums) -> Finding:
    """Counts, first and last offsets and digests in the ledger are those of the visible sink records."""
    violations, checked = Violations(), 0
    unmatched = dict(sums)
    for entry in entries:
        for written in entry.sinks:
            in_sink = unmatched.pop((entry.partition, entry.start, written.topic, written.partition), (0, -1, -1, 0))
            in_ledger = (written.count, written.first, written.last, written.digest)
            checked += written.count
            if in_sink != in_ledger:
                violations.add(
                    f"{transaction(entry)}: the ledger has (count, first, last, digest) = {in_ledger} for "
                    f"{written.topic}/{written.partition}; the topic has {in_sink}"
                )
    for (source, start, topic, partition), (count, *_) in unmatched.items():
        violations.add(
            f"{topic}/{partition} has {count} records of the transaction that starts at {start} in partition {source}; "
            "the ledger has no entry for it"
        )
    return violations.finding(
        "ledger_matches_sink", f"{checked:,} records, counts and digests equal", "ledger entries differ"
    )


def add_repaired(sums: Sums, repairs: Collection[Amendment], provable: Iterable[Amendment]) -> Sums:
    """The sums of all transactions as their entries count them: with what was lost and repaired.

    Args:
        sums: of the visible records.
        repairs: all repairs.
        provable: the repairs of which nothing is gone. The sums of the others are left out.
    """
    gone = {(repair.partition, repair.start) for repair in repairs}
    gone -= {(repair.partition, repair.start) for repair in provable}
    added = {key: figures for key, figures in sums.items() if key[:2] not in gone}
    for repair in repairs:
        for lost in repair.lost if isinstance(repair, Repair) else ():
            key = (repair.partition, lost.start, lost.topic, lost.partition)
            if key in added:  # else its transaction is no longer provable, or no map names what was lost
                count, first, last, digest = added[key]
                added[key] = (count + lost.count, first, last, (digest + lost.digest) % 2**64)
    return added


def dropped_matches_ledger(entries: Iterable[LedgerEntry], dropped: Mapping[tuple[int, int], int]) -> Violations:
    """Running the transform again drops as many records as the ledger counts, where it gives a number.

    Args:
        entries: the transactions that can be recomputed.
        dropped: source partition and start of a transaction → the number of records that are dropped again.
    """
    violations = Violations()
    for entry in entries:
        again = dropped.get((entry.partition, entry.start), 0)
        if entry.dropped is not None and entry.dropped != again:
            violations.add(
                f"{transaction(entry)}: the ledger counts {entry.dropped} dropped records; running the transform again "
                f"drops {again}"
            )
    return violations


def letters_replayed_twice(amendments: Iterable[Amendment]) -> Violations:
    """No dead letter is replayed by two transactions."""
    violations, replayed = Violations(), dict[tuple[int, int], int]()
    for entry in amendments:
        for offset in sorted(entry.replayed) if isinstance(entry, LetterEntry) else ():
            first = replayed.setdefault((entry.partition, offset), entry.number)
            if first != entry.number:
                violations.add(f"dead letter {entry.partition}/{offset}: replayed by {first} and by {entry.number}")
    return violations


def transaction(entry: LedgerEntry | Amendment) -> str:
    if isinstance(entry, Amendment):
        return f"{entry.kind} {entry.number} of partition {entry.partition}"
    return f"transaction [{entry.start}, {entry.next}) of partition {entry.partition}"


def code_versions(entries: Iterable[LedgerEntry]) -> list[str]:
    """For each source partition, the offset at which each version of the code began to write."""
    last: dict[int, str] = {}
    changes: dict[int, list[str]] = defaultdict(list)
    for entry in entries:
        if last.get(entry.partition) != entry.code_version:
            last[entry.partition] = entry.code_version
            changes[entry.partition].append(f"from {entry.start}: {entry.code_version}")
    return [f"partition {p}: {'; '.join(lines)}" for p, lines in sorted(changes.items())]
