"""The metrics of pipelines on a real broker, as Prometheus scrapes them."""

import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from eos_assets.experiment.faults import Faults
from eos_assets.kafka import reader as kafka_reader
from eos_assets.kafka.connection import Connection
from eos_assets.local.ports import ReservedPort
from eos_assets.metrics.exporter import Read, registry_of, serve
from eos_assets.metrics.reader import ClusterReader
from eos_assets.platform.loopback import LOOPBACK, direct
from eos_assets_tests.run.lab import Lab, MakeLab
from eos_assets_tests.waiting import wait_for

#: Name and labels → value.
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@contextmanager
def served(read: Read, seconds: float = 30) -> Iterator[str]:
    port = ReservedPort()
    server = serve(registry_of(read, seconds), LOOPBACK, port.number)
    yield f"http://{LOOPBACK}:{port.number}/metrics"
    server.shutdown()
    server.server_close()
    port.release()


def scrape(address: str) -> Samples:
    with direct.open(urllib.request.Request(address), timeout=60) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(samples: Samples, name: str, **labels: object) -> float:
    """The sum of a metric over the labels that are not given."""
    wanted = {(label, str(value)) for label, value in labels.items()}
    return sum(value for (found, own), value in samples.items() if found == name and wanted <= set(own))


def test_everything_that_a_run_has_committed_is_exported_without_the_run(make_lab: MakeLab) -> None:
    lab = make_lab(fresh_within=120)
    lab.fill(300)
    lab.produce([b"7 is not alone", b"8 is not alone"], partition=1)
    name = lab.pipeline.name
    with served(ClusterReader([lab.pipeline], lab.connection).read) as address:
        before = scrape(address)
        assert of(before, "eos_up") == of(before, "eos_pipeline_up", pipeline=name) == 1
        assert of(before, "eos_lag_offsets") == 302
        assert of(before, "eos_commits_total") == of(before, "eos_proof_timestamp_seconds") == 0
        assert not [1 for metric, _ in before if metric in ("eos_proof_holds", "eos_last_commit_timestamp_seconds")]
        lab.run(Faults(failpoint="before_commit", partition=1))
        assert lab.proof().holds
        after = scrape(address)
        producer = Producer(lab.connection.config())
        producer.produce(lab.sink, b"invented", b"invented", 0)
        producer.flush()
        assert not lab.proof().holds
        failed = scrape(address)
    assert of(after, "eos_lag_offsets") == of(after, "eos_open_transaction_seconds") == 0
    assert of(after, "eos_position_offset") == of(after, "eos_source_stable_offset") == 302
    assert of(after, "eos_records_in_total") == 302
    assert of(after, "eos_records_out_total", partition=0) > 0
    assert of(after, "eos_records_out_total") == 300
    assert of(after, "eos_dead_letters_total", partition=1) == of(after, "eos_dead_letters_total") == 2
    assert of(after, "eos_dead_letters_by_reason", reason="no integer") == 2
    assert of(after, "eos_commits_total") == of(after, "eos_transaction_seconds_count") == 3
    assert of(after, "eos_task_retries_total") + of(after, "eos_job_retries_total") == 1
    assert of(after, "eos_out_bytes_total") > 300
    assert of(after, "eos_proof_holds", pipeline=name) == 1
    assert of(after, "eos_proof_timestamp_seconds") == of(after, "eos_proof_held_timestamp_seconds")
    assert of(failed, "eos_proof_timestamp_seconds") > of(failed, "eos_proof_held_timestamp_seconds")
    assert of(failed, "eos_proof_holds", pipeline=name) == of(after, "eos_invariant_violated") == 0
    assert of(failed, "eos_invariant_violated", invariant="none_invented") == 1
    assert time.time() - of(after, "eos_last_commit_timestamp_seconds", partition=0) < 60
    assert of(after, "eos_fresh_within_seconds", pipeline=name) == 120


def test_a_scrape_reads_only_what_is_new(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counting(*args: object, **options: object) -> Iterator[object]:
        messages = list(kafka_reader.read_partitions(*args, **options))  # type: ignore[arg-type]
        read.append(len(messages))
        yield from messages

    monkeypatch.setattr("eos_assets.metrics.reader.read_partitions", counting)
    cluster = ClusterReader([lab.pipeline], lab.connection)
    for number in (1, 2):
        lab.fill(30 * number)
        lab.run()
        cluster.read()
        assert sum(read) == (6 if number == 1 else 3), "three geneses, and three entries of each run"
        read.clear()
    cluster.read()
    assert sum(read) == 0


def test_an_open_transaction_and_a_lag_have_an_age(lab: Lab) -> None:
    producer = lab.open_transaction([b"1"], partition=2)
    lab.produce([b"2"], partition=0)
    cluster = ClusterReader([lab.pipeline], lab.connection)
    cluster.read()
    (state,) = cluster.read()
    assert state.open_seconds[lab.source, 2] > 0
    assert state.open_seconds[lab.source, 0] == 0
    assert state.partitions[0].lagging_seconds > 0
    assert state.partitions[2].lagging_seconds == 0, "what is not decided is not a lag"
    producer.commit_transaction(30)
    (state,) = cluster.read()
    assert state.open_seconds[lab.source, 2] == 0


def test_a_pipeline_without_topics_is_down_and_the_others_are_not(lab: Lab) -> None:
    other = replace(lab.pipeline, name="without_topics")
    with served(ClusterReader([lab.pipeline, other], lab.connection).read) as address:
        samples = scrape(address)
    assert of(samples, "eos_up") == 1
    assert of(samples, "eos_pipeline_up", pipeline=lab.pipeline.name) == 1
    assert of(samples, "eos_pipeline_up", pipeline="without_topics") == 0


def test_without_brokers_a_scrape_answers_in_time(lab: Lab) -> None:
    port = ReservedPort()
    away = Connection(f"{LOOPBACK}:{port.number}")
    with served(ClusterReader([lab.pipeline], away).read, seconds=0.5) as address:
        started = time.monotonic()
        assert scrape(address) == {("eos_up", ()): 0.0}
        assert scrape(address) == {("eos_up", ()): 0.0}
        assert time.monotonic() - started < 5
    port.release()


def test_scrapes_do_not_pile_up_and_the_exporter_recovers() -> None:
    answer, calls = threading.Event(), []

    def read() -> list[object]:
        calls.append(1)
        answer.wait(30)
        return []

    with served(read, seconds=0.1) as address:  # type: ignore[arg-type]
        assert [of(scrape(address), "eos_up") for _ in range(3)] == [0, 0, 0]
        assert len(calls) == 1
        answer.set()
        assert wait_for(lambda: of(scrape(address), "eos_up") == 1)
