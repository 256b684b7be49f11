"""Each pipeline, delivery mode and generation has names of its own."""

import re

from hypothesis import given
from hypothesis import strategies as st

from eos_assets.declare.modes import Mode
from eos_assets.declare.names import Names

identifiers = st.from_regex(r"[a-z_][a-z0-9_]{0,20}", fullmatch=True)
topics = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True).filter(lambda name: name not in (".", ".."))


@given(identifiers, topics, st.integers(0, 10_000))
def test_no_two_partitions_share_a_transactional_id(name: str, topic: str, partition: int) -> None:
    """Pipeline, topic and partition can be read back from it."""
    parts = re.fullmatch(r"eos/([^/]+)/([^/]+)/(\d+)", Names(name, topic, "sink").transactional_id(partition))
    assert parts is not None
    assert parts.groups() == (name, topic, str(partition))


def test_a_baseline_delivery_shares_no_name_with_the_real_one() -> None:
    def all_names(names: Names) -> set[str]:
        return {names.group, names.ledger, names.provenance, names.dead_letters, names.sink("sink")}

    names = [all_names(Names("p", "source", "sink", mode)) for mode in Mode]
    assert len(set.union(*names)) == sum(map(len, names))


def test_a_generation_shares_no_topic_and_no_group_with_an_earlier_one() -> None:
    def own(generation: int) -> set[str]:
        names = Names("p", "source", "sink", generation=generation)
        return {names.group, names.proofs, names.ledger, names.provenance, names.changelog, names.seen}

    assert len(own(1) | own(2)) == 12
