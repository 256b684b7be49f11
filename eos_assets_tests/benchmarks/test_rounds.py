"""The contenders take turns, and only rounds after the warm-ups count."""

import io

from rich.console import Console

from benchmarks.rounds import left_text, order_of, seconds_left, take_turns
from benchmarks.stage import Measurement
from benchmarks.usage import Usage


def test_each_round_begins_with_another_contender() -> None:
    assert [order_of("abc", number) for number in range(4)] == [list("abc"), list("bca"), list("cab"), list("abc")]


def test_the_time_left_is_that_of_the_runs_ahead() -> None:
    assert seconds_left({}, ["a"]) is None
    assert seconds_left({"a": [1, 3], "b": []}, ["a", "a"]) == 4
    assert seconds_left({"a": [1], "b": [3]}, ["c"]) == 2, "an unknown one takes as long as the average"
    assert [left_text(each) for each in (None, 30, 300)] == ["", "about 30 s left", "about 5 min left"]


def test_warm_ups_do_not_count() -> None:
    runs: list[str] = []

    def run(name: str) -> Measurement:
        runs.append(name)
        return Measurement(len(runs), Usage(0, 0, 0, 0))

    console = Console(file=io.StringIO())
    measured = take_turns("t", ["a", "b"], run, warm_ups=1, rounds=2, console=console)
    assert runs == ["a", "b", "b", "a", "a", "b"]
    assert {name: [each.seconds for each in found] for name, found in measured.items()} == {"a": [4, 5], "b": [3, 6]}
