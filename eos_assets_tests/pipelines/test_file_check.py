"""The check that files are still as they were delivered, and when it is not evaluated."""

from pathlib import Path
from typing import Any, cast

import pytest

from eos_assets.files.access import Access
from eos_assets.pipelines.file_check import FileComparison, check_files, compare_file, files_match_ledger

EQUAL = FileComparison("file:///a.csv", 0, 0, "sha256:a", "sha256:a")
CHANGED = FileComparison("file:///b.csv", 0, 1, "sha256:b", "sha256:c")
UNAVAILABLE = FileComparison("", 0, 2, "sha256:d", None, "not found")
NOT_FETCHED = FileComparison("", 0, 3, "sha256:e", None, fetched=False)


@pytest.mark.parametrize(
    ("files", "evaluated", "holds", "detail"),
    [
        ([], True, True, "0 files as delivered"),
        (
            [EQUAL, UNAVAILABLE, NOT_FETCHED],
            True,
            True,
            "1 files as delivered, 1 can no longer be fetched, 1 not fetched for",
        ),
        ([CHANGED, UNAVAILABLE], True, False, "1 files changed, 1 can no longer be fetched"),
        ([UNAVAILABLE, UNAVAILABLE], False, True, "not evaluated: 2 can no longer be fetched: not found"),
        ([NOT_FETCHED], False, True, "not evaluated: 1 not fetched for lack of time"),
    ],
)
def test_only_files_that_were_fetched_are_compared(
    files: list[FileComparison], evaluated: bool, holds: bool, detail: str
) -> None:
    finding = files_match_ledger(files)
    assert (finding.evaluated, finding.holds) == (evaluated, holds)
    assert finding.detail.startswith(detail)


def test_where_nothing_is_declared_nothing_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EOS_FILES_ROOT", "EOS_FILES_HOSTS", "EOS_FILES_STORES"):
        monkeypatch.delenv(name, raising=False)
    nothing = cast(Any, None)  # neither Kafka nor Spark is used
    finding = check_files(nothing, nothing, nothing)
    assert not finding.evaluated
    assert finding.detail.startswith("not evaluated: no place for files is declared here")


def test_a_missing_folder_is_the_reason_for_each_file(tmp_path: Path) -> None:
    missing = Access(root=tmp_path / "missing")
    comparison = compare_file(b"file:///in/a.csv", 0, 0, "sha256:a", missing)
    assert comparison.current is None
    assert "cannot be read: No such file" in comparison.reason
