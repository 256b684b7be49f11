"""Whether files are still those that were delivered, and when nobody can say."""

from pathlib import Path
from typing import Any, cast

import pytest

from eos_assets.files.access import Access
from eos_assets.pipelines.file_check import FileSeen, files_match_ledger, look, seen_again

EQUAL = FileSeen("file:///a.csv", 0, 0, "sha256:a", "sha256:a")
CHANGED = FileSeen("file:///b.csv", 0, 1, "sha256:b", "sha256:c")
GONE = FileSeen("", 0, 2, "sha256:d", None, "not found")
LEFT = FileSeen("", 0, 3, "sha256:e", None, looked=False)


@pytest.mark.parametrize(
    ("files", "evaluated", "holds", "detail"),
    [
        ([], True, True, "0 files as delivered"),
        ([EQUAL, GONE, LEFT], True, True, "1 files as delivered, 1 cannot be fetched any more, 1 not looked at for"),
        ([CHANGED, GONE], True, False, "1 files changed, 1 cannot be fetched any more"),
        ([GONE, GONE], False, True, "not evaluated: 2 cannot be fetched any more: not found"),
        ([LEFT], False, True, "not evaluated: 1 not looked at for lack of time"),
    ],
)
def test_only_what_was_compared_is_evaluated(files: list[FileSeen], evaluated: bool, holds: bool, detail: str) -> None:
    finding = files_match_ledger(files)
    assert (finding.evaluated, finding.holds) == (evaluated, holds)
    assert finding.detail.startswith(detail)


def test_where_nothing_is_declared_nothing_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EOS_FILES_ROOT", "EOS_FILES_HOSTS", "EOS_FILES_STORES"):
        monkeypatch.delenv(name, raising=False)
    nothing = cast(Any, None)  # neither a broker nor Spark is asked
    finding = look(nothing, nothing, nothing)
    assert not finding.evaluated
    assert finding.detail.startswith("not evaluated: no place for files is declared here")


def test_a_root_that_is_not_there_is_told_of_each_file(tmp_path: Path) -> None:
    missing = Access(root=tmp_path / "missing")
    seen = seen_again(b"file:///in/a.csv", 0, 0, "sha256:a", missing)
    assert seen.today is None
    assert "cannot be read: No such file" in seen.reason
