"""The comparison of the audit tables with the ledger, entry by entry."""

from dataclasses import replace
from typing import cast

import pytest

from eos_assets.audit.check import TableComparison
from eos_assets.audit.table_contents import TableContents
from eos_assets.audit.tables import AuditTables
from eos_assets.log.ledger import LedgerEntry, WrittenRange

SINKS = (WrittenRange("sink", 0, 2, 0, 1, 7), WrittenRange("sink", 1, 1, 0, 0, 7))
ENTRY = LedgerEntry("p", "source", 0, 5, 8, 3, 3, 0, 0, 0, SINKS, "run", 1, 0, "1", 0, 0)
#: The entry is loaded from offset 1 of the ledger: next, in, out, skipped, dead and the number of rows.
ROW = (8, 3, 3, 0, 0, 1)
CONTENTS = TableContents({(0, 5): ROW}, loaded={0: 1}, before={0: 4}, delivered={(0, 5): 3})


def compare(
    contents: TableContents = CONTENTS, offset: int = 1, first_map: int = 0, row: tuple[int, ...] | None = ROW
) -> tuple[bool, int, int, list[str]]:
    """Whether the entry was compared, the pending and expired ones, and the violations."""
    comparison = TableComparison(cast(AuditTables, None), contents, {})
    compared = comparison.compare_entry(offset, ENTRY, row, first_map)
    return compared, comparison.pending, comparison.expired, comparison.violations.examples


def test_an_entry_with_its_row_and_its_deliveries_is_equal() -> None:
    assert compare() == (True, 0, 0, [])


@pytest.mark.parametrize("row", [None, (9, *ROW[1:]), (*ROW[:-1], 2)], ids=["missing", "another end", "twice"])
def test_a_row_that_differs_is_a_violation(row: tuple[int, ...] | None) -> None:
    compared, _, _, (example,) = compare(row=row)
    assert compared
    assert example.startswith("transaction [5, 8) of partition 0: ")
    assert f"is {ROW} in the ledger and {row} in the table" in example


def test_missing_deliveries_are_a_violation() -> None:
    *_, examples = compare(replace(CONTENTS, delivered={(0, 5): 2}))
    assert examples == ["transaction [5, 8) of partition 0: 3 outputs, 2 rows in audit_deliveries"]
    *_, examples = compare(replace(CONTENTS, delivered={(0, 9): 1}))
    assert examples == ["transaction [5, 8) of partition 0: 3 outputs, 0 rows in audit_deliveries"]


def test_what_was_committed_or_loaded_in_part_since_the_last_update_is_pending() -> None:
    assert compare(offset=2, row=None) == (False, 1, 0, [])
    assert compare(replace(CONTENTS, delivered={})) == (False, 1, 0, [])


def test_deliveries_whose_maps_were_deleted_are_no_longer_provable() -> None:
    assert compare(replace(CONTENTS, delivered={}), first_map=6) == (True, 0, 1, [])
