"""How far the audit tables reach. Each commit carries its mark, so rows need not be read to continue."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

#: Partition → the highest value that a table has reached.
Reached = dict[int, int]


@dataclass(frozen=True)
class Mark:
    """How far one table reaches, and the ledger that it is made from."""

    ledger_id: str
    reached: Reached
    #: None after a commit whose rows Spark has made: they were not counted.
    rows: int | None
    #: The number of the commit from which it was read.
    version: int = -1

    def advance(self, reached: Reached, rows: int | None) -> "Mark":
        """The mark of the next commit."""
        total = None if rows is None or self.rows is None else self.rows + rows
        return Mark(self.ledger_id, reached, total)

    def to_json(self) -> str:
        content = asdict(self)
        del content["version"]
        return json.dumps({"eos": content})

    @staticmethod
    def from_json(text: str | None) -> "Mark | None":
        """None for the commit of another writer."""
        try:
            content = json.loads(text or "")["eos"]
        except (ValueError, TypeError, KeyError):
            return None
        return Mark(**{**content, "reached": {int(p): value for p, value in content["reached"].items()}})


@dataclass(frozen=True)
class TablesReached:
    """How far the tables that are appended to reach."""

    #: Ledger partition → the last ledger offset.
    transactions: Reached = field(default_factory=dict)
    #: Source partition → the start of the last transaction.
    deliveries: Reached = field(default_factory=dict)
    #: Partition of the dead letters → the last offset that was read.
    dead_letters: Reached = field(default_factory=dict)


def advance(before: Reached, offsets: Iterable[tuple[int, int]]) -> Reached:
    """The highest offset of each partition."""
    reached = dict(before)
    for partition, offset in offsets:
        reached[partition] = max(reached.get(partition, -1), offset)
    return reached
