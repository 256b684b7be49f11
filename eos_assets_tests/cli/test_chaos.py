"""`eos chaos` refuses what makes no sense before it starts any server."""

import io
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from eos_assets.chaos.fault_plan import KINDS
from eos_assets.chaos.soak import SoakStatus
from eos_assets.cli.chaos import cells, chaos_command, table
from eos_assets.errors import EosError


@pytest.mark.parametrize(
    ("options", "problem", "remedy"),
    [
        ("--minutes 0", "--minutes 0 is not valid.", "Use a number above 0."),
        ("--minutes nan", "--minutes nan is not valid.", "Use a number above 0."),
        ("--rate -5", "--rate -5 is not valid.", "Use a number above 0."),
        ("--rate 1e9", "--rate 1e+09 is not valid.", "Use at most 100000"),
        ("--every 90 --minutes 1", "--every 90 with --minutes 1 is not valid", "Use at most --every 60."),
        ("--pipeline nosuch", "There is no pipeline nosuch.", "The pipelines are:"),
        ("--html /nosuch/report.html", "The folder /nosuch of the report does not exist.", "Create it"),
    ],
)
def test_a_wrong_option_is_named_with_its_value_and_a_remedy(
    options: str, problem: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EOS_HOME", str(tmp_path))
    with pytest.raises(EosError) as refused:
        chaos_command.main(options.split(), standalone_mode=False)
    assert problem in refused.value.problem
    assert remedy in refused.value.remedy


def test_an_unknown_fault_is_answered_with_the_known_ones() -> None:
    error = CliRunner().invoke(chaos_command, ["--faults", "kill-broker,flood"]).stderr
    assert "flood" in error
    assert all(kind in error for kind in KINDS)


def test_the_table_shows_the_status() -> None:
    status = SoakStatus(12.3, "running", 2, "abort: worker 7", 12_000, 11_000, 1_000)
    console = Console(width=200, file=io.StringIO())
    console.print(table(cells(status)))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert all(text in shown for text in ("12 s", "running", "12,000", "11,000", "1,000", "abort: worker 7"))
