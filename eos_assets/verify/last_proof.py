"""The outcome of the last proof, kept in a consumer group, so that a client of the brokers can see that it failed.

The checkpoint of the proof moves only if everything holds. This group has the time and the result of each proof, in the
metadata of one offset: that of the first partition of the ledger, up to which the proof has read.
"""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from eos_assets.declare.check import Finding
from eos_assets.declare.names import Names
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.retries import retry_transient

VERSION = 1
PATIENCE_SECONDS = 30


@dataclass(frozen=True)
class LastProof:
    """When the invariants were last evaluated, which of them were violated, and when all of them last held."""

    #: Seconds since 1970; None if there was no proof, or none that the brokers still remember.
    evaluated_at: float | None = None
    held_at: float | None = None
    violated: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.evaluated_at is not None and self.evaluated_at == self.held_at

    def next(self, now: float, *, holds: bool, findings: Iterable[Finding]) -> "LastProof":
        violated = tuple(finding.name for finding in findings if not finding.holds)
        return LastProof(now, now if holds else self.held_at, violated)

    def to_json(self) -> str:
        content = {"v": VERSION, "at": self.evaluated_at, "held_at": self.held_at, "violated": list(self.violated)}
        return json.dumps(content, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "LastProof":
        content = json.loads(text)
        if content["v"] != VERSION:
            raise ValueError(f"version {content['v']} of a proof's outcome is unknown, this is version {VERSION}")
        return LastProof(content["at"], content["held_at"], tuple(content["violated"]))


def read_last_proof(connection: Connection, names: Names) -> LastProof:
    """Read it with a consumer: the admin client of librdkafka 2.16 may crash while a group has no coordinator yet."""
    consumer = Consumer(connection.config(group_id=names.last_proof))
    try:
        place = TopicPartition(names.ledger, 0)
        (offset,) = retry_transient(lambda: consumer.committed([place], timeout=PATIENCE_SECONDS))
    finally:
        consumer.close()
    return LastProof.from_json(offset.metadata) if offset.offset >= 0 and offset.metadata else LastProof()


def record_proof(
    connection: Connection, names: Names, ledger_end: int, *, holds: bool, findings: Iterable[Finding]
) -> None:
    """Write the outcome of a proof that has read the first partition of the ledger up to this offset."""
    proof = read_last_proof(connection, names).next(round(time.time(), 3), holds=holds, findings=findings)
    offset = TopicPartition(names.ledger, 0, ledger_end, proof.to_json())
    consumer = Consumer(connection.config(group_id=names.last_proof))
    try:
        retry_transient(lambda: consumer.commit(offsets=[offset], asynchronous=False))
    finally:
        consumer.close()
