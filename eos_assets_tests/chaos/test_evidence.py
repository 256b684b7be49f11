"""What killed processes wrote down becomes operations of the history."""

from eos_assets.chaos.evidence import Event, run_operations
from eos_assets.chaos.history import Completion, RunOperation
from eos_assets.kafka.offsets import OffsetRange


def test_a_run_that_did_not_return_is_unknown_and_one_that_did_names_its_ranges() -> None:
    events: list[Event] = [
        {"event": "called", "run": "a"},
        {"event": "called", "run": "b"},
        {"event": "committed", "id": ["b", 1, 0, 2, 5]},
        {"event": "returned", "run": "b", "completion": "ok", "committed": [[2, 5, 9]], "reason": ""},
    ]
    assert run_operations(events) == [
        RunOperation("a", Completion.UNKNOWN),
        RunOperation("b", Completion.OK, (OffsetRange(2, 5, 9),)),
    ]
