"""What somebody else wrote into a pipeline's own topics is told with its place, by everything that reads them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from eos_assets.audit.tables import AuditTables
from eos_assets.errors import EosError
from eos_assets.run.plan import make_plan
from eos_assets.verify.trace import entry_of, outcome_of
from eos_assets_tests.run.lab import Lab, MakeLab

NO_ENTRY = [b'{"v":99,"kind":"entry"}', b'{"v":1,"kind":"note"}', b'{"v":1,"kind":"entry"}', b"[]", b"\xff", None]


def slip_in(lab: Lab, topic: str, value: bytes | None) -> str:
    """Writes into partition 0 of a topic, past the pipeline. Returns where it lies."""
    producer = Producer(lab.connection.config())
    producer.produce(topic, value, partition=0)
    producer.flush()
    return f"{topic}/0 offset {lab.read(topic)[-1].offset()} holds no "


def refused(act: Callable[[], object], told: str) -> EosError:
    with pytest.raises(EosError) as refusal:
        act()
    assert refusal.value.problem.startswith(told)
    assert "transform" not in str(refusal.value)
    assert "restore it, or begin anew" in refusal.value.remedy
    return refusal.value


def test_a_ledger_that_somebody_else_wrote_into_is_refused_by_all_its_readers(
    make_lab: MakeLab, tmp_path: Path
) -> None:
    lab = make_lab(partitions=1)
    lab.fill(10)
    assert lab.run().complete
    lab.fill(20)
    ledger = lab.pipeline.names().ledger
    place = slip_in(lab, ledger, b'{"broken')
    assert "Nothing was written." in refused(lab.run, place).remedy
    refused(lab.proof, place)
    refused(lambda: entry_of(lab.pipeline, lab.connection, 0, 10), place)
    refused(AuditTables(lab.pipeline, lab.spark, lab.connection, str(tmp_path)).update, place)
    for value in (b'{"broken', *NO_ENTRY):
        refused(lambda: make_plan(lab.pipeline, lab.connection), slip_in(lab, ledger, value))
    assert len(lab.values()) == 10


def test_a_provenance_topic_that_somebody_else_wrote_into_is_refused_by_all_its_readers(
    make_lab: MakeLab, tmp_path: Path
) -> None:
    lab = make_lab(partitions=1)
    lab.fill(10)
    assert lab.run().complete
    place = slip_in(lab, lab.pipeline.names().provenance, b"no map")
    refused(lab.proof, place)
    refused(lambda: outcome_of(lab.pipeline, lab.connection, 0, 3), place)
    refused(AuditTables(lab.pipeline, lab.spark, lab.connection, str(tmp_path)).update, place)
