"""F3 on one broker: the writer of each partition is killed three times, and each record is there once, in order."""

from pathlib import Path

import pytest

from eos_assets.kafka.offsets import bounds
from eos_assets_tests.run.background import Background
from eos_assets_tests.run.lab import KINDS, MakeLab
from eos_assets_tests.sink.killing import (
    MARKS,
    SOURCE_PARTITIONS,
    StoppedAtMarks,
    assert_each_square_once_in_order,
    declare_many_to_many,
)


@pytest.mark.parametrize("kind", KINDS)
def test_nine_kills_of_writers_each_after_a_fifth_of_the_records(make_lab: MakeLab, tmp_path: Path, kind: str) -> None:
    lab = make_lab(pipeline=declare_many_to_many(kind, records=100))
    lab.fill(3000)
    sizes = {p: each.high for p, each in bounds(lab.connection, lab.source).items()}
    faults = StoppedAtMarks(str(tmp_path), sizes)
    run = Background(lab, faults)  # type: ignore[arg-type]
    kills: list[tuple[int, int]] = []
    while run.thread.is_alive():
        kills += faults.kill_stopped()
        run.thread.join(0.02)
    assert run.result().complete
    assert sorted(kills) == [(p, number) for p in range(SOURCE_PARTITIONS) for number in range(len(MARKS))]
    assert max(entry.task_attempt for entry in run.result().entries) == len(MARKS)
    assert_each_square_once_in_order(lab)
    assert lab.lag() == 0
    assert lab.broken() == set()
