"""Fault injection: by probability, repeatable by its seed, or at a named step of the protocol."""

import hashlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from eos_assets.errors import Code, EosError, TaskError
from eos_assets.sink.job import FAILPOINTS, NoFaults

ACTIONS = ("raise", "exit", "stop")
#: How a random failure strikes a transaction: an error before its commit, an error after it, or a killed worker.
KINDS = ("before_commit", "after_commit", "kill")


class InjectedFailure(TaskError):
    """An injected failure. The retry of the task succeeds."""

    def __init__(self, text: str) -> None:
        super().__init__(Code.INJECTED_FAILURE, text)


@dataclass(frozen=True)
class Faults(NoFaults):
    """The faults to inject. A failpoint fires in the first attempt of the first job only, so the next one succeeds."""

    probability: float = 0.0
    seed: int = 0
    failpoint: str | None = None
    action: str = "raise"
    partition: int | None = None
    always: bool = False
    #: A folder in which a stopped process leaves its id, so that a test can resume it.
    pid_folder: str | None = None
    kind: str = "before_commit"

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise EosError(f"Failure probability {self.probability} is not valid.", "Use a number from 0 to 1.")
        if self.failpoint is not None and self.failpoint not in FAILPOINTS:
            raise EosError(f"Failpoint {self.failpoint} is not valid.", f"Use one of {', '.join(FAILPOINTS)}.")
        if self.action not in ACTIONS:
            raise EosError(f"Action {self.action} is not valid.", f"Use one of {', '.join(ACTIONS)}.")
        if self.kind not in KINDS:
            raise EosError(f"Failure kind {self.kind} is not valid.", f"Use one of {', '.join(KINDS)}.")

    def reach(self, failpoint: str, partition: int, start: int, run_attempt: int, task_attempt: int) -> None:
        self.fire(failpoint, partition, run_attempt, task_attempt)
        if failpoint == "before_commit":
            self.fail_transaction(partition, start, run_attempt, task_attempt)
        elif failpoint == "after_commit":
            self.fail_committed(partition, start, run_attempt, task_attempt)

    def fire(self, failpoint: str, partition: int, run_attempt: int, task_attempt: int) -> None:
        """Perform the action of this failpoint, if it is the requested one."""
        if failpoint != self.failpoint or self.partition not in (None, partition):
            return
        if not self.always and (run_attempt, task_attempt) != (1, 0):
            return
        if self.action == "exit":
            os._exit(137)
        if self.action == "stop":
            if self.pid_folder:
                Path(self.pid_folder, f"{partition}.pid").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        raise InjectedFailure(f"failpoint {failpoint} in partition {partition}")

    def strikes(self, partition: int, start: int, run_attempt: int, task_attempt: int) -> bool:
        """Whether this transaction fails: a pure function of seed, partition, offset and attempts."""
        identity = f"{self.seed}/{partition}/{start}/{run_attempt}/{task_attempt}".encode()
        drawn = int.from_bytes(hashlib.blake2b(identity, digest_size=8).digest()) / 2**64
        return drawn < self.probability

    def fail_transaction(self, partition: int, start: int, run_attempt: int, task_attempt: int) -> None:
        """Fail this transaction just before its commit, with the given probability."""
        if self.kind == "after_commit" or not self.strikes(partition, start, run_attempt, task_attempt):
            return
        if self.kind == "kill":
            os._exit(137)
        raise InjectedFailure(f"injected into partition {partition} at offset {start}")

    def fail_committed(self, partition: int, start: int, run_attempt: int, task_attempt: int) -> None:
        """Fail the attempt after its commit has returned, although nothing is left to do."""
        if self.kind == "after_commit" and self.strikes(partition, start, run_attempt, task_attempt):
            raise InjectedFailure(f"injected after the commit of partition {partition} at offset {start}")
