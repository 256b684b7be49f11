"""A bank for one test: it sends transactions, and keeps the expected balances in plain Python."""

import json
import random
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
    """The project's pipeline on topics of its own."""
    name = f"t{uuid.uuid4().hex[:10]}"
    topics = {"source": Topic(f"{name}-transactions", partitions), "sinks": (Topic(f"{name}-balances", 3),)}
    return replace(balances, name=name, **{**topics, **changes})


@dataclass
class Bank:
    """The transactions that were sent, and what is expected of them."""

    lab: Lab
    balances: dict[str, Decimal] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    rejected: list[str] = field(default_factory=list)
    sent: int = 0

    def transaction(self, account: str, amount: str, **other: str) -> dict[str, str]:
        self.sent += 1
        fields = {"transaction_id": f"t{self.sent}", "account": account, "amount": amount, "currency": "EUR"}
        return {**fields, "booked_at": "2024-05-01T12:00:00Z", "text": "Kaffee, größer", **other}

    def send(self, transactions: Iterable[dict[str, str]]) -> None:
        """Send them with the partitioner of the Java client, and compute what is expected."""
        producer = Producer(self.lab.connection.config(partitioner="murmur2_random"))
        for transaction in transactions:
            producer.produce(self.lab.source, json.dumps(transaction), transaction["account"])
            balance = self.balances.get(transaction["account"], Decimal(0)) + Decimal(transaction["amount"])
            if balance < LOWEST_BALANCE:
                self.rejected.append(transaction["transaction_id"])
            else:
                self.balances[transaction["account"]] = balance
                self.outputs[transaction["account"]].append(str(balance))
        producer.flush()

    def assert_booked(self) -> None:
        """The sink has every balance in order, to the cent, and the dead letters are the rejected transactions."""
        outputs: dict[str, list[str]] = defaultdict(list)
        for message in self.lab.read():
            value = json.loads(message.value() or b"")
            assert (message.key() or b"").decode() == value["account"]
            outputs[value["account"]].append(value["balance"])
        assert outputs == self.outputs
        assert {account: Decimal(values[-1]) for account, values in outputs.items()} == self.balances
        dead = [json.loads(m.value() or b"") for m in self.lab.read(self.lab.pipeline.names().dead_letters)]
        assert sorted(letter["transaction_id"] for letter in dead) == sorted(self.rejected)


def random_transactions(bank: Bank, count: int, seed: int) -> list[dict[str, str]]:
    """Bookings to twelve accounts."""
    generator = random.Random(seed)
    return [
        bank.transaction(f"acc-{generator.randrange(12)}", f"{generator.randrange(-40_000, 40_000) / 100:.2f}")
        for _ in range(count)
    ]
