"""A declared check names its finding."""

from typing import Any

from eos_assets.declare.check import Check, Finding


def test_a_finding_has_the_name_of_its_check() -> None:
    def evaluate(*_: Any) -> Finding:
        return Finding(holds=False, detail="1 square is negative")

    check = Check("squares_are_positive", "No square is negative.", evaluate)
    found: Finding = check.finding(*[None] * 3)  # type: ignore[arg-type]
    assert found == Finding("squares_are_positive", holds=False, detail="1 square is negative")
