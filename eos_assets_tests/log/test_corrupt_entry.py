"""Every reader of a ledger or provenance topic refuses a foreign message and names its offset."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from eos_assets.audit.tables import AuditTables
from eos_assets.errors import EosError
from eos_assets.run.plan import make_plan
from eos_assets.verify.trace import entry_of, outcome_of
from eos_assets_tests.run.lab import Lab, MakeLab

INVALID = [
    b'{"v":99,"kind":"entry"}',
    b'{"v":1,"kind":"note"}',
    b'{"v":1,"kind":"entry"}',
    b"[]",
    b"\xff",
    None,
]


def write_foreign(lab: Lab, topic: str, value: bytes | None) -> str:
    """Write to partition 0 of a topic with a producer of another program. Returns the start of the expected error."""
    producer = Producer(lab.connection.config())
    producer.produce(topic, value, partition=0)
    producer.flush()
    return f"{topic}/0 offset {lab.read(topic)[-1].offset()} does not hold a "


def refused(act: Callable[[], object], problem: str) -> EosError:
    with pytest.raises(EosError) as refusal:
        act()
    assert refusal.value.problem.startswith(problem)
    assert "transform" not in str(refusal.value)
    assert "Restore the topic, or declare the next generation" in refusal.value.remedy
    return refusal.value


def test_all_readers_of_a_ledger_refuse_a_foreign_message(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(partitions=1)
    lab.fill(10)
    assert lab.run().complete
    lab.fill(20)
    ledger = lab.pipeline.names().ledger
    problem = write_foreign(lab, ledger, b'{"broken')
    assert "Nothing was written." in refused(lab.run, problem).remedy
    refused(lab.proof, problem)
    refused(lambda: entry_of(lab.pipeline, lab.connection, 0, 10), problem)
    refused(AuditTables(lab.pipeline, lab.spark, lab.connection, str(tmp_path)).update, problem)
    for value in (b'{"broken', *INVALID):
        refused(lambda: make_plan(lab.pipeline, lab.connection), write_foreign(lab, ledger, value))
    assert len(lab.values()) == 10


def test_all_readers_of_a_provenance_topic_refuse_a_foreign_message(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(partitions=1)
    lab.fill(10)
    assert lab.run().complete
    problem = write_foreign(lab, lab.pipeline.names().provenance, b"no map")
    refused(lab.proof, problem)
    refused(lambda: outcome_of(lab.pipeline, lab.connection, 0, 3), problem)
    refused(AuditTables(lab.pipeline, lab.spark, lab.connection, str(tmp_path)).update, problem)
