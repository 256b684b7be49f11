"""Proofs: each begins where the last one ended, disturbs no run, and reports what retention has removed."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eos_assets.declare.options import Batching
from eos_assets.declare.topic import Topic
from eos_assets.kafka.connection import Connection
from eos_assets.local.broker import KafkaCluster
from eos_assets.log.provenance import ProvenanceMap
from eos_assets.platform.settings import Settings
from eos_assets.verify import checkpoint
from eos_assets.verify.window import reader
from eos_assets_tests.run.background import Background
from eos_assets_tests.run.lab import Lab, MakeLab, declare


def delete_below(lab: Lab, topic: str, offset: int) -> None:
    for future in lab.connection.admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result()


def test_a_proof_begins_where_the_last_one_ended(lab: Lab) -> None:
    lab.fill(600)
    lab.run()
    first = lab.proof()
    assert first.holds
    assert not first.incremental
    assert first.figures["source_records"] == 600
    nothing_new = lab.proof()
    assert nothing_new.holds
    assert nothing_new.incremental
    assert nothing_new.figures["source_records"] == nothing_new.figures["sink_records"] == 0
    assert re.match(r"nothing new since the proof of 20\d\d-\d\d-\d\d .* UTC; proven up to ", nothing_new.nothing_new)
    assert f"{lab.source}/0@" in nothing_new.nothing_new
    assert not first.nothing_new
    lab.fill(30)
    lab.run()
    second = lab.proof()
    assert second.holds
    assert (second.figures["source_records"], second.figures["sink_records"]) == (30, 30)
    assert not second.nothing_new
    everything = lab.proof(full=True)
    assert everything.holds
    assert everything.figures["source_records"] == 630


def test_a_proof_of_nothing_new_keeps_the_time_of_the_last_one_that_had_something_to_prove(lab: Lab) -> None:
    lab.fill(30)
    lab.run()
    assert lab.proof().holds
    names = lab.pipeline.names()
    topics = (lab.source, names.ledger, names.provenance, lab.sink, names.dead_letters)
    proven = checkpoint.load(lab.connection, names, [(topic, p) for topic in topics for p in range(3)])
    long_ago = [TopicPartition(*place, offset, "2001-02-03T04:05:06Z") for place, offset in proven.items()]
    checkpoint.commit(lab.connection, names, long_ago)
    for _ in range(2):
        assert lab.proof().nothing_new.startswith("nothing new since the proof of 2001-02-03 04:05:06 UTC")


def test_a_violation_since_the_last_proof_is_found_until_it_is_fixed(make_lab: MakeLab) -> None:
    """Another producer writes to the sink, and a map claims an origin that was proven long ago."""
    lab = make_lab(partitions=1)
    lab.fill(100)
    lab.run()
    assert lab.proof().holds
    lab.fill(20)
    lab.run()
    names = lab.pipeline.names()
    producer = Producer(lab.connection.config())
    offsets: list[int | None] = []
    producer.produce(lab.sink, b"0", b"0", 0, on_delivery=lambda _, message: offsets.append(message.offset()))
    producer.flush()
    for _ in range(2):
        proof = lab.proof()
        assert proof.incremental
        assert {finding.name for finding in proof.findings if not finding.holds} >= {"none_invented"}
    old = ProvenanceMap(0, 100, lab.sink, 0, np.array(offsets, np.int64), np.array([5]), np.array([0]))
    producer.produce(names.provenance, next(iter(old.messages())), b"100", 0)
    producer.flush()
    broken = {finding.name for finding in lab.proof().findings if not finding.holds}
    assert "no_duplicates" in broken


def test_a_map_that_is_written_again_after_a_proof_is_found(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1)
    lab.fill(100)
    lab.run()
    assert lab.proof().holds
    topic = lab.pipeline.names().provenance
    last = lab.read(topic)[-1]
    producer = Producer(lab.connection.config())
    producer.produce(topic, last.value(), last.key(), 0)
    producer.flush()
    proof = lab.proof()
    assert proof.incremental
    assert {finding.name for finding in proof.findings if not finding.holds} == {"no_duplicates"}
    assert "no_duplicates" in lab.broken()


def test_a_sink_that_lost_its_end_is_red(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of a partition is deleted below the broker: the same topic ends before the last entry of the ledger."""
    monkeypatch.setattr(reader, "PATIENCE_SECONDS", 2.0)
    with KafkaCluster(tmp_path, settings=settings) as cluster:
        lab = Lab(spark, cluster.connection, declare(partitions=1, sink=Topic("short", partitions=1)))
        lab.create()
        lab.fill(50)
        lab.run()
        assert lab.broken() == set()
        cluster.stop()
        data = cluster.nodes[0].data
        for name in ("log", "index", "timeindex", "txnindex", "snapshot"):
            for file in (data / "short-0").glob(f"*.{name}"):
                file.unlink()
        (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
        cluster.start()
        later = Lab(spark, Connection(cluster.bootstrap_servers), lab.pipeline)
        assert not later.proof().holds, "also where the last proof had seen it"
        assert {"none_missing", "ledger_matches_sink"} <= later.broken()


def test_a_proof_during_a_run_is_never_red(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1, batching=Batching(records=100))
    lab.fill(12_000)
    run = Background(lab)
    proofs = 0
    while run.thread.is_alive():
        proof = lab.proof()
        assert proof.holds, [finding for finding in proof.findings if not finding.holds]
        proofs += 1
    assert run.result().complete
    assert proofs > 1
    assert lab.proof().holds
    assert lab.proof().figures["source_records"] == 0, "everything is proven by now"


def test_what_retention_removed_is_neither_green_nor_red(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1).with_(transform=to_one_partition)
    lab.fill(1000)
    for records in (300, 300, 400):
        lab.run(max_records=records)
    delete_below(lab, lab.source, 150)
    proof = lab.proof(full=True)
    assert proof.holds, [finding for finding in proof.findings if not finding.holds]
    assert proof.figures["no_longer_provable"] == 150
    delete_below(lab, lab.sink, 350)
    proof = lab.proof(full=True)
    assert proof.holds, [finding for finding in proof.findings if not finding.holds]
    assert proof.figures["no_longer_provable"] == 600, "the log start of the sink is within the second transaction"
    delete_below(lab, lab.pipeline.names().provenance, 3)
    proof = lab.proof(full=True)
    assert proof.holds, [finding for finding in proof.findings if not finding.holds]


def to_one_partition(records: DataFrame) -> DataFrame:
    return records.select("key", "value", f.lit(0).alias("partition"), "origin")


def test_a_record_in_another_partition_than_the_declared_one_is_found(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1).with_(transform=to_one_partition)
    lab.fill(50)
    lab.run()
    assert lab.broken() == set()
    elsewhere = lab.with_(transform=lambda r: to_one_partition(r).withColumn("partition", f.lit(2)))
    found = {finding.name: finding for finding in elsewhere.proof(full=True).findings}
    assert not found["routed_correctly"].holds
    assert found["values_recompute"].holds, "the content is the same"


def test_the_reader_in_the_contract_reads_the_provenance(make_lab: MakeLab, tmp_path: Path) -> None:
    """It runs as it is printed in docs/contract.md, and uses nothing of the project."""
    contract = Path(__file__).parents[2] / "docs" / "contract.md"
    (code,) = re.findall(r"```python\n(.*?)```", contract.read_text(), re.DOTALL)
    assert "eos_assets" not in code
    assert len(code.splitlines()) <= 30
    (tmp_path / "reader.py").write_text(code)
    lab = make_lab(partitions=1)
    lab.fill(50)
    lab.run()
    command = [sys.executable, str(tmp_path / "reader.py"), lab.connection.bootstrap_servers]
    arguments = [lab.pipeline.names().provenance, "0"]
    done = subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    outcomes = dict(line.split(" -> ") for line in done.stdout.splitlines())
    places = {f"{m.topic()}/{m.partition()}/{m.offset()}": int(m.key() or b"") for m in lab.read()}
    assert len(outcomes) == 50
    for origin, place in outcomes.items():
        number = int(re.fullmatch(r"source 0/(\d+) output 0", origin)[1])  # type: ignore[index]
        assert places[place] == number, "with one partition the offset is the integer"
