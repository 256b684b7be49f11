"""A bank of its own for one test: transactions in, and balances as plain Python would keep them."""

import json
import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from confluent_kafka import Producer

from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.pipelines.balances import LOWEST_BALANCE, balances
from eos_assets_tests.run.lab import Lab


def own_balances(partitions: int = 3, **changes: Any) -> Pipeline:
    """The project's pipeline on topics that no other test has."""
    name = f"t{uuid.uuid4().hex[:10]}"
    topics = {"source": Topic(f"{name}-transactions", partitions), "sinks": (Topic(f"{name}-balances", 3),)}
    return replace(balances, name=name, **{**topics, **changes})


@dataclass
class Bank:
    """What was sent, and what must come of it."""

    lab: Lab
    balances: dict[str, Decimal] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    rejected: list[str] = field(default_factory=list)
    sent: int = 0

    def transaction(self, account: str, amount: str, **other: str) -> dict[str, str]:
        self.sent += 1
        told = {"transaction_id": f"t{self.sent}", "account": account, "amount": amount, "currency": "EUR"}
        return {**told, "booked_at": "2024-05-01T12:00:00Z", "text": "Kaffee, größer", **other}

    def send(self, transactions: Iterable[dict[str, str]]) -> None:
        """Sends them as a Java client would, and keeps the books."""
        producer = Producer(self.lab.connection.config(partitioner="murmur2_random"))
        for one in transactions:
            producer.produce(self.lab.source, json.dumps(one), one["account"])
            balance = self.balances.get(one["account"], Decimal(0)) + Decimal(one["amount"])
            if balance < LOWEST_BALANCE:
                self.rejected.append(one["transaction_id"])
            else:
                self.balances[one["account"]] = balance
                self.outputs[one["account"]].append(str(balance))
        producer.flush()

    def assert_booked(self) -> None:
        """The sink holds every balance on the way, in order, and the dead letters what was rejected; to the cent."""
        found: dict[str, list[str]] = defaultdict(list)
        for message in self.lab.read():
            value = json.loads(message.value() or b"")
            assert (message.key() or b"").decode() == value["account"]
            found[value["account"]].append(value["balance"])
        assert found == self.outputs
        assert {account: Decimal(values[-1]) for account, values in found.items()} == self.balances
        dead = [json.loads(m.value() or b"") for m in self.lab.read(self.lab.pipeline.names().dead_letters)]
        assert sorted(one["transaction_id"] for one in dead) == sorted(self.rejected)
