"""Secured brokers: the least permissions suffice, and each missing one is named before a record is written."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions
from pyspark.sql import SparkSession

from eos_assets.audit.check import compare_with_ledger
from eos_assets.audit.tables import AuditTables
from eos_assets.declare.options import Unique
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets.kafka.reader import read_partition
from eos_assets.run.preflight import preflight
from eos_assets.run.preflight.permissions import Permission, creation, permissions
from eos_assets.run.run import run_pipeline
from eos_assets.verify.verify import verify_pipeline
from eos_assets_tests.run.lab import Lab, squared
from eos_assets_tests.scenarios.secured.conftest import PIPELINE, USER, Guarded
from eos_assets_tests.state.folds import declare_sliding
from eos_assets_tests.waiting import wait_for

#: A refusal is immediate; the rest is for a slow machine. Retries would take at least 30 s.
FAST_SECONDS = 12
#: With a Spark job, whose tasks Spark tries four times; a run would be tried twenty times.
LATE_SECONDS = 45


def refusal(spark: SparkSession, connection: Connection) -> tuple[str, float]:
    """The error of a run that lacks a permission, and the seconds it took."""
    started = time.monotonic()
    try:
        report = run_pipeline(PIPELINE, spark, connection)
    except EosError as error:
        return str(error), time.monotonic() - started
    assert not report.complete
    assert {outcome.outcome for outcome in report.outcomes} == {"refused"}
    return report.outcomes[0].reason, time.monotonic() - started


@pytest.mark.parametrize("missing", permissions(PIPELINE), ids=str)
def test_each_missing_permission_is_named_immediately_and_nothing_is_written(
    guarded: Guarded, spark: SparkSession, missing: Permission
) -> None:
    """F21."""
    guarded.forbid(missing)
    try:
        message, seconds = refusal(spark, guarded.user)
    finally:
        guarded.allow(missing)
    assert missing.operation in message
    assert f"{missing.kind} {missing.name}" in message
    assert f"eos acls {PIPELINE.name} --principal User:{USER}" in message
    assert seconds < FAST_SECONDS
    for topic in PIPELINE.own_topics():
        ends = {offsets.high for offsets in bounds(guarded.admin, topic.name).values()}
        assert ends == {0}, f"{topic.name} holds records, perhaps aborted ones"


LATE = {
    "Write on topic secured-sink": "TOPIC_AUTHORIZATION_FAILED",
    "Write on topic eos.secured.ledger": "TOPIC_AUTHORIZATION_FAILED",
    "Read on group eos/secured": "Read on group eos/secured",
    "Write on transactional-id eos/secured/…": "Write on transactional-id eos/secured/…",
    "Read on topic secured-source": "TopicAuthorizationException",
}


@pytest.mark.parametrize("missing", LATE)
def test_a_permission_removed_after_the_check_is_named_and_not_retried(
    guarded: Guarded, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """The check of permissions is left out, as if one had been removed right after it."""
    (removed,) = (permission for permission in permissions(PIPELINE) if str(permission) == missing)
    described = replace(removed, operation="Describe")
    monkeypatch.setattr(preflight, "check_permissions", lambda *_: None)
    guarded.allow(described)
    guarded.forbid(removed)
    try:
        message, seconds = refusal(spark, guarded.user)
    finally:
        guarded.allow(removed)
        guarded.forbid(described)
    assert LATE[missing] in message
    assert f"--principal User:{USER}" in message
    assert seconds < LATE_SECONDS
    for topic in PIPELINE.own_topics():
        visible = [m for p in range(3) for m in read_partition(guarded.admin, topic.name, p)]
        assert visible == []


def test_the_least_permissions_suffice_for_runs_proofs_and_audit_tables(
    guarded: Guarded, spark: SparkSession, tmp_path: Path
) -> None:
    lab = Lab(spark, guarded.user, PIPELINE)
    Lab(spark, guarded.admin, PIPELINE).produce([b"no number"])
    report = lab.run()
    assert report.complete
    assert sum(outcome.dead for outcome in report.summary()) == 1
    assert verify_pipeline(PIPELINE, spark, guarded.user).holds
    assert verify_pipeline(PIPELINE, spark, guarded.user).incremental, "the position of the last proof was stored"
    tables = AuditTables(PIPELINE, spark, guarded.user, str(tmp_path))
    assert {state.name: state.rows for state in tables.update()}["audit_deliveries"] == 91
    assert compare_with_ledger(tables).finding.holds


def test_they_suffice_for_a_stateful_pipeline_and_each_of_its_topics_is_named(
    guarded: Guarded, spark: SparkSession
) -> None:
    counting = declare_sliding(partitions=1, unique=Unique("value", within=100))
    create_topics([counting.source, *counting.own_topics()], guarded.admin)
    producer = Producer(guarded.admin.config())
    producer.produce(counting.source.name, b"1", b"a", 0)
    producer.flush()
    needed = permissions(counting)
    for permission in needed:
        guarded.allow(permission)
    own = [p for p in needed if p.name in counting.changelogs() and p.operation in ("Read", "Write")]
    assert len(own) == 4
    for missing in own:
        guarded.forbid(missing)
        with pytest.raises(EosError, match=str(missing)):
            run_pipeline(counting, spark, guarded.user)
        guarded.allow(missing)
    assert run_pipeline(counting, spark, guarded.user).complete
    assert verify_pipeline(counting, spark, guarded.user).holds


def test_growth_of_the_source_names_the_permission_that_the_own_topics_need(
    guarded: Guarded, spark: SparkSession
) -> None:
    grown = pipeline(name="grown", source=Topic("grown-source", 1), sink=Topic("grown-sink", 1))(squared)
    create_topics([grown.source, *grown.own_topics()], guarded.admin)
    for permission in permissions(grown):
        guarded.allow(permission)
    guarded.admin.admin.create_partitions([NewPartitions("grown-source", 2)])["grown-source"].result()
    wait_for(lambda: len(guarded.user.partitions("grown-source")) == 2)
    with pytest.raises(EosError, match=r"lacks Alter on topic eos\.grown\.ledger"):
        run_pipeline(grown, spark, guarded.user)
    for permission in creation(grown):
        guarded.allow(permission)
    assert run_pipeline(grown, spark, guarded.user).complete


def test_a_proof_without_permission_is_refused_by_name(guarded: Guarded, spark: SparkSession) -> None:
    (missing,) = (p for p in permissions(PIPELINE) if p.name == PIPELINE.names().proofs)
    guarded.forbid(missing)
    try:
        with pytest.raises(EosError, match="Read on group eos/secured/proven"):
            verify_pipeline(PIPELINE, spark, guarded.user)
    finally:
        guarded.allow(missing)


def test_a_topic_that_may_not_be_created_is_named(guarded: Guarded) -> None:
    with pytest.raises(EosError, match=f"User:{USER} lacks Create on topic not-mine") as error:
        create_topics([Topic("not-mine")], guarded.user)
    assert f"--creation --principal User:{USER}" in error.value.remedy


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"password": "wrong"}, "rejects the credentials of User:squares"),
        ({"username": "nobody"}, "rejects the credentials of User:nobody"),
        ({"authority": ""}, "The TLS connection to Kafka failed"),
        ({"mechanism": "SCRAM-SHA-256"}, "rejects the credentials of User:squares"),
        ({"protocol": "PLAINTEXT"}, "No Kafka broker answers"),
    ],
    ids=str,
)
def test_refused_credentials_are_explained_immediately(guarded: Guarded, changes: dict[str, Any], message: str) -> None:
    stranger = replace(guarded.user, security=replace(guarded.user.security, **changes))
    started = time.monotonic()
    with pytest.raises(EosError, match=message) as error:
        stranger.metadata()
    assert "EOS_KAFKA_" in error.value.remedy
    assert time.monotonic() - started < FAST_SECONDS
