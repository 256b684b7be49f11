"""A discard is a mark with who and why; the letter stays."""

import pytest

from eos_assets.errors import EosError
from eos_assets.letters.discard import discard_letters
from eos_assets.letters.letter import LetterFilter, read_letters
from eos_assets.log.letter_marks import Status
from eos_assets_tests.run.lab import MakeLab


def test_a_discarded_letter_stays_with_who_and_why(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=2)
    lab.produce([b"1", b"x"])
    lab.produce([b"y"], partition=1)
    assert lab.run().complete
    assert not lab.broken()
    chosen = LetterFilter(partitions=frozenset({1}))
    with pytest.raises(EosError, match="needs a reason"):
        discard_letters(lab.pipeline, lab.connection, chosen, by="ann", why=" ")
    report = discard_letters(lab.pipeline, lab.connection, chosen, by="ann", why="a test record")
    assert report.complete
    assert len(report.entries) == 1
    (left,) = read_letters(lab.pipeline, lab.connection)
    assert left.origin == (0, 1)
    (discarded,) = read_letters(lab.pipeline, lab.connection, LetterFilter(statuses=frozenset({Status.DISCARDED})))
    assert discarded.mark is not None
    assert (discarded.origin, discarded.mark.by, discarded.mark.reason) == ((1, 0), "ann", "a test record")
    assert lab.values(lab.pipeline.names().dead_letters) == [b"x", b"y"], "nothing is deleted"
    proof = lab.proof()
    assert proof.holds
    assert proof.nothing_new, "a discard leaves nothing to prove"
    lab.produce([b"2"])
    assert lab.run().complete
    with pytest.raises(EosError, match="no partition 7"):
        read_letters(lab.pipeline, lab.connection, LetterFilter(partitions=frozenset({7})))
    again = LetterFilter(origins=frozenset({(1, 0)}))
    with pytest.raises(EosError, match="offset 0 is discarded by ann"):
        discard_letters(lab.pipeline, lab.connection, again, by="bob", why="again")
