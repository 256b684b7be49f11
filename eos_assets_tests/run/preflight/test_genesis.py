"""A ledger that does not begin with its sink."""

from typing import Any

import pytest
from confluent_kafka import Producer

from eos_assets.errors import EosError
from eos_assets.run.preflight import genesis
from eos_assets_tests.run.lab import Lab, MakeLab


def test_a_sink_that_holds_foreign_records_is_refused_for_one_partition_too(lab: Lab) -> None:
    lab.fill(30)
    producer = Producer(lab.connection.config())
    producer.produce(lab.sink, b"25", b"5", 0)
    producer.flush()
    for chosen in (None, [0]):
        with pytest.raises(EosError, match="The ledger is empty, but the sink is not"):
            lab.run(partitions=chosen)
    assert len(lab.read()) == 1


@pytest.mark.parametrize(
    ("question", "theirs"),
    [("late_geneses", [0]), ("check_sinks", [1])],
    ids=["provenance", "sink"],
)
def test_a_run_that_planned_before_the_first_commit_of_another_goes_on(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch, question: str, theirs: list[int]
) -> None:
    """The other run commits just before a question about a topic that was empty when the plan was made."""
    lab = make_lab(partitions=2)
    lab.fill(40)
    original = getattr(genesis, question)

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(genesis, question, original)
        assert lab.run(partitions=theirs).complete
        return original(*arguments)

    monkeypatch.setattr(genesis, question, late)
    assert lab.run(partitions=[0]).complete
    assert lab.run().complete
    assert sorted(int(message.key() or 0) for message in lab.read()) == list(range(40))
