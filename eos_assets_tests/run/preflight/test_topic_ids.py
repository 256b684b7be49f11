"""Topics that are not those that the pipeline began with."""

import pytest

from eos_assets.errors import EosError
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets_tests.plugin import MakeTopic
from eos_assets_tests.run.lab import Lab
from eos_assets_tests.waiting import wait_for


@pytest.mark.parametrize("which", ["source", "sink", "ledger"])
def test_a_topic_deleted_and_created_again_is_refused(lab: Lab, which: str) -> None:
    """F18."""
    lab.fill(300)
    lab.run()
    names = lab.pipeline.names()
    topic = {"source": lab.source, "sink": lab.sink, "ledger": names.ledger}[which]
    lab.connection.admin.delete_topics([topic])[topic].result()
    wait_for(lambda: topic not in lab.connection.metadata().topics)
    create_topics([lab.pipeline.source, *lab.pipeline.own_topics()], lab.connection)
    with pytest.raises(EosError, match=r"deleted and created again|but its provenance topic is not|is committed"):
        lab.run()
    if which != "sink":
        lab.assert_squares(range(300))
    if which == "ledger":
        assert "offsets_match_ledger" in lab.broken()
        return
    with pytest.raises(EosError, match="deleted and created again"):
        lab.proof(full=True)


def test_another_source_under_the_same_name_is_refused(lab: Lab, make_topic: MakeTopic) -> None:
    """Its records below the positions of the first one would never be read."""
    lab.fill(30)
    lab.run(partitions=[0, 1])
    other = make_topic(partitions=3)
    fill(lab.connection, other.name, 300)
    another = lab.with_(source=other)
    problem = f"began with {lab.source} as its source, and is declared with {other.name}"
    for chosen in (None, [0], [2]):
        with pytest.raises(EosError, match=problem):
            another.run(partitions=chosen)
    with pytest.raises(EosError, match=problem):
        another.proof()
    assert lab.run().complete
    lab.assert_squares(range(30))
