"""The declaration of a topic."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eos_assets.errors import EosError

FOREVER = -1
#: What survives the loss of a broker: three replicas, of which two must be in sync for an acknowledgement.
REPLICAS, IN_SYNC = 3, 2


@dataclass(frozen=True)
class Topic:
    """A declared topic.

    By default it has 3 replicas, 2 of them in sync, where there are three brokers, and 1 replica on a single
    development broker. The default retention is that of the broker.
    """

    name: str
    partitions: int = 3
    replication: int | None = None
    min_insync_replicas: int | None = None
    retention_ms: int | None = None
    compacted: bool = False
    max_message_bytes: int | None = None
    #: How long a compacted topic keeps its tombstones. A reader that takes longer may miss a deletion.
    delete_retention_ms: int | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", str(self.name)) or self.name in (".", ".."):
            raise EosError(
                f"{self.name!r} is not a valid topic name.",
                "Use at most 249 letters, digits, '.', '_' and '-'.",
            )
        for setting in ("partitions", "replication", "min_insync_replicas"):
            value = getattr(self, setting)
            if value is not None and not (isinstance(value, int) and value >= 1):
                raise EosError(f"Topic {self.name}: {setting}={value!r} is not valid.", "Use a number, at least 1.")

    def config(self, brokers: int) -> dict[str, str]:
        """The topic's settings on a cluster with this number of brokers."""
        replication = self.replicas(brokers)
        config = {
            "min.insync.replicas": str(self.min_insync_replicas or max(1, replication - 1)),
            "cleanup.policy": "compact" if self.compacted else "delete",
        }
        if self.retention_ms is not None:
            config["retention.ms"] = str(self.retention_ms)
        if self.retention_ms == FOREVER:
            config["retention.bytes"] = str(FOREVER)
        if self.max_message_bytes is not None:
            config["max.message.bytes"] = str(self.max_message_bytes)
        if self.delete_retention_ms is not None:
            config["delete.retention.ms"] = str(self.delete_retention_ms)
        return config

    def replicas(self, brokers: int) -> int:
        """The number of replicas on a cluster with this number of brokers."""
        return self.replication or min(REPLICAS, brokers)


def as_topic(topic: Topic | str) -> Topic:
    """A topic, from its declaration or its name."""
    if isinstance(topic, str):
        return Topic(topic)
    if not isinstance(topic, Topic):
        raise EosError(f"{topic!r} is not a topic.", "Use the name of the topic, or an eos.Topic.")
    return topic


def as_topics(topics: Topic | str | Sequence[Topic | str]) -> tuple[Topic, ...]:
    """Topics, from one or several declarations or names."""
    return (as_topic(topics),) if isinstance(topics, Topic | str) else tuple(map(as_topic, topics))
