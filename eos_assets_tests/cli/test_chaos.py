"""`eos chaos` refuses what makes no sense before it starts any server."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from eos_assets.chaos.fault_plan import KINDS
from eos_assets.cli.chaos import chaos_command
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
