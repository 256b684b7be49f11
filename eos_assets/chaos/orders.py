"""Orders: the soak writes down at which step a worker is to fail, and the first worker that arrives there obeys."""

import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from eos_assets.chaos.history import TransactionId
from eos_assets.chaos.trace import write_event
from eos_assets.experiment.faults import InjectedFailure
from eos_assets.platform.folders import write_atomically
from eos_assets.sink.job import NoFaults

#: What an order makes a worker do.
KILL, RAISE, STOP = "kill", "raise", "stop"


@dataclass(frozen=True)
class Strike:
    """A worker has obeyed: which one, and in which transaction."""

    pid: int
    partition: int
    start: int


class Orders:
    """The orders in one folder, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.order = folder / "order.json"
        self.claimed = folder / "order.claimed"
        self.strike = folder / "strike.json"

    def give(self, step: str, action: str) -> None:
        self.strike.unlink(missing_ok=True)
        write_atomically(self.order, json.dumps({"step": step, "action": action}))

    def withdraw(self) -> bool:
        """Take the order back. Returns False if a worker has claimed it already."""
        try:
            self.order.unlink()
        except FileNotFoundError:
            return False
        return True

    def struck(self) -> Strike | None:
        """The strike of the last order, if a worker has obeyed it."""
        return Strike(**json.loads(self.strike.read_text())) if self.strike.exists() else None

    def claim(self, step: str) -> str | None:
        """The action of an order for this step. Of several workers that arrive, one gets it."""
        try:
            order = json.loads(self.order.read_text())
            if order["step"] != step:
                return None
            self.order.rename(self.claimed)
        except FileNotFoundError:
            return None
        return str(order["action"])

    def report(self, strike: Strike) -> None:
        write_atomically(self.strike, json.dumps(asdict(strike)))


@dataclass(frozen=True)
class ObedientFaults(NoFaults):
    """Makes the workers of a run obey the orders in a folder, and write down what became of each transaction."""

    folder: str
    run: str

    def reach(self, failpoint: str, partition: int, start: int, run_attempt: int, task_attempt: int) -> None:
        folder = Path(self.folder)
        orders = Orders(folder)
        action = orders.claim(failpoint)
        transaction = TransactionId(self.run, run_attempt, task_attempt, partition, start)
        if failpoint == "after_commit":
            write_event(folder, "committed", id=transaction)
        elif action in (KILL, RAISE):
            write_event(folder, "aborted", id=transaction)
        elif failpoint == "before_commit":
            write_event(folder, "committing", id=transaction)
        if action is None:
            return
        orders.report(Strike(os.getpid(), partition, start))
        if action == RAISE:
            raise InjectedFailure(f"{failpoint} in partition {partition} at offset {start}")
        os.kill(os.getpid(), signal.SIGKILL if action == KILL else signal.SIGSTOP)
