"""The parts of a history that no client holds: what killed processes wrote down, and what is committed at the end."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from eos_assets.chaos.history import (
    CommittedTransaction,
    Completion,
    Outputs,
    RunOperation,
    TransactionId,
    TransactionOperation,
)
from eos_assets.declare.names import Names
from eos_assets.experiment.observation import read_topic
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.log import ledger, provenance
from eos_assets.log.ledger import LedgerEntry

Event = dict[str, Any]


def run_operations(events: Iterable[Event]) -> list[RunOperation]:
    """The calls of runs. One that did not return was killed, and its outcome is unknown."""
    runs: dict[str, RunOperation] = {}
    for event in events:
        if event["event"] == "called":
            runs[event["run"]] = RunOperation(event["run"], Completion.UNKNOWN)
        elif event["event"] == "returned":
            committed = tuple(OffsetRange(*each) for each in event["committed"])
            runs[event["run"]] = RunOperation(event["run"], Completion(event["completion"]), committed)
    return list(runs.values())


def transaction_operations(events: Iterable[Event]) -> list[TransactionOperation]:
    """What workers learned about their transactions. The commit of one that was killed meanwhile is unknown."""
    learned = {"committing": Completion.UNKNOWN, "committed": Completion.OK, "aborted": Completion.FAILED}
    transactions: dict[TransactionId, TransactionOperation] = {}
    for event in events:
        if event["event"] in learned:
            identity = TransactionId(*event["id"])
            transactions[identity] = TransactionOperation(identity, learned[event["event"]])
    return list(transactions.values())


def committed_transactions(connection: Connection, names: Names) -> list[CommittedTransaction]:
    """What the ledger and the maps name as committed."""
    outputs: dict[tuple[int, int], list[Outputs]] = defaultdict(list)
    for message in read_topic(connection, names.provenance, "read_committed"):
        origin = provenance.read(message)
        if not origin.skips:
            written = (origin.topic, origin.partition, origin.sink_offsets, origin.source_offsets, origin.sequences)
            outputs[origin.source_partition, origin.start].append(Outputs(*written))
    return [
        CommittedTransaction(
            TransactionId(entry.run, entry.run_attempt, entry.task_attempt, entry.partition, entry.start),
            entry.next,
            tuple(outputs.pop((entry.partition, entry.start), ())),
        )
        for entry in ledger_entries(connection, names)
    ]


def ledger_entries(connection: Connection, names: Names) -> Iterator[LedgerEntry]:
    for message in read_topic(connection, names.ledger, "read_committed"):
        entry = ledger.read(message)
        if isinstance(entry, LedgerEntry):
            yield entry
