"""Open transactions on secured brokers: what a principal may not see is not taken for an orphan."""

import pytest
from confluent_kafka import KafkaException, Producer

from eos_assets.errors import EosError
from eos_assets.kafka.open_transactions import abort_transactions, find_open_transactions
from eos_assets_tests.scenarios.secured.conftest import PIPELINE, Guarded
from eos_assets_tests.waiting import wait_for


def test_a_transaction_whose_id_is_hidden_is_left_alone(guarded: Guarded) -> None:
    """Both principals log in by SCRAM over TLS; only the administrator may describe the id."""
    topic = PIPELINE.source.name
    other = Producer(guarded.admin.config(transactional_id="other"))
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(topic, b"open", partition=0)
    other.flush()
    (hidden,) = find_open_transactions(guarded.user, [topic])
    assert (hidden.orphan, hidden.transactional_id) == (True, None)
    with pytest.raises(EosError, match="may not see"):
        abort_transactions(guarded.user, [hidden])
    (known,) = find_open_transactions(guarded.admin, [topic])
    assert (known.orphan, known.transactional_id, known.producer_id) == (False, "other", hidden.producer_id)
    with pytest.raises(KafkaException, match="Transactional Id authorization failed"):
        abort_transactions(guarded.user, [known])
    abort_transactions(guarded.admin, [known])
    wait_for(lambda: find_open_transactions(guarded.admin, [topic]) == [])
