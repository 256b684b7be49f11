"""A state that is not that of the ledger, and the state of a new generation."""

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.errors import EosError
from eos_assets_tests.run.lab import MakeLab
from eos_assets_tests.state.counting import home, make_records, send
from eos_assets_tests.state.folds import declare_sliding, sliding


def shifted(records: DataFrame, state: DataFrame) -> tuple[DataFrame, DataFrame]:
    outputs, changed = sliding(records, state)
    return outputs, changed.withColumn("offsets", f.transform("offsets", lambda o: o + 1))


def test_a_state_that_is_not_the_fold_fails_and_a_foreign_changelog_record_is_refused(
    make_lab: MakeLab,
) -> None:
    lab = make_lab(pipeline=declare_sliding())
    send(lab, make_records(30))
    lab.run()
    assert lab.broken() == set()
    assert lab.with_(fold=shifted).broken() == {"state_recomputes"}
    (other,) = [m for m in lab.read(lab.pipeline.names().changelog) if m.key() == b"b"]
    producer = Producer(lab.connection.config())
    producer.produce(other.topic() or "", other.value(), b"a", home(b"a"))
    producer.flush()
    send(lab, make_records(5, 1))
    with pytest.raises(EosError, match="no transaction of the ledger wrote it"):
        lab.run()


def test_a_new_generation_begins_with_an_empty_state(make_lab: MakeLab) -> None:
    lab = make_lab(pipeline=declare_sliding())
    send(lab, make_records(20))
    lab.run()
    following = lab.with_(generation=2, shared_sink=True)
    following.create()
    assert following.run().complete
    assert len(lab.read()) == 40, "everything a second time, on purpose"
    assert following.broken() == set()
