"""Injects the faults of a plan, one after the other, and heals each of them."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil

from eos_assets.chaos.fault_plan import PlannedFault
from eos_assets.chaos.orders import KILL, RAISE, STOP, Orders, Strike
from eos_assets.chaos.servers import SoakServers
from eos_assets.deadlines import poll_until

#: How long an order waits for a worker that arrives at its step.
ORDER_SECONDS = 20.0
#: How long a stopped worker waits for the run that takes over.
TAKEOVER_SECONDS = 25.0
#: How long a worker takes at most from its report to its stop.
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02


@dataclass(frozen=True)
class InjectedFault:
    """A fault of the plan, when it began and ended, in seconds since the start of the soak, and whom it struck."""

    planned: PlannedFault
    began: float
    ended: float
    #: What was struck, in words; empty if no worker arrived at the step in time.
    struck: str


class Injector:
    """What can be done to the servers of one soak."""

    def __init__(self, servers: SoakServers, position: Callable[[int], int]) -> None:
        self.servers = servers
        #: The committed position of a source partition, as last observed.
        self.position = position
        self.orders = Orders(servers.trace)
        self.actions: dict[str, Callable[[PlannedFault], str]] = {
            "kill-broker": self.kill_broker,
            "pause-broker": self.pause_broker,
            "kill-worker": self.kill_worker,
            "abort": self.abort,
            "kill-run": self.kill_run,
            "fence": self.fence,
            "double-run": self.double_run,
        }

    def inject(self, planned: PlannedFault, started: float) -> InjectedFault:
        """Inject one fault and heal it. Afterwards brokers serve, no worker is stopped, and one runner goes on."""
        began = time.monotonic() - started
        struck = self.actions[planned.kind](planned)
        self.servers.keep_one_runner()
        return InjectedFault(planned, round(began, 2), round(time.monotonic() - started, 2), struck)

    def kill_broker(self, fault: PlannedFault) -> str:
        self.servers.kafka.kill(fault.broker)
        time.sleep(fault.seconds)
        self.servers.kafka.restart(fault.broker)
        return f"broker {fault.broker}, down for {fault.seconds:g} s"

    def pause_broker(self, fault: PlannedFault) -> str:
        process = self.servers.kafka.nodes[fault.broker - 1].process
        assert process is not None
        process.pause()
        try:
            time.sleep(fault.seconds)
        finally:
            process.resume()
        return f"broker {fault.broker}, for {fault.seconds:g} s"

    def kill_worker(self, fault: PlannedFault) -> str:
        return describe(self.strike(fault.step, KILL), fault)

    def abort(self, fault: PlannedFault) -> str:
        return describe(self.strike(fault.step, RAISE), fault)

    def kill_run(self, fault: PlannedFault) -> str:
        """Kill every runner while a worker is stopped in its transaction; then it continues without its driver."""
        strike = self.strike(fault.step, STOP)
        if strike is None:
            return ""
        try:
            self.servers.kill_runners()
            self.servers.launch()
            time.sleep(fault.seconds)
        finally:
            resume(strike.pid)
        return describe(strike, fault)

    def fence(self, fault: PlannedFault) -> str:
        """Let a worker continue when another run has committed past the start of its transaction."""
        strike = self.strike(fault.step, STOP)
        if strike is None:
            return ""
        try:
            self.servers.launch()
            self.await_position(strike)
        finally:
            resume(strike.pid)
        return describe(strike, fault)

    def double_run(self, fault: PlannedFault) -> str:
        runner = self.servers.launch()
        time.sleep(fault.seconds)
        return f"{runner.name} beside the one before, for {fault.seconds:g} s"

    def strike(self, step: str, action: str) -> Strike | None:
        """Order the next worker that arrives at a step to fail there, and wait until it has."""
        self.orders.give(step, action)
        strike = poll_until(self.orders.struck, ORDER_SECONDS, POLL_SECONDS)
        if strike or self.orders.withdraw():
            return strike
        return poll_until(self.orders.struck, ORDER_SECONDS, POLL_SECONDS)  # a worker arrived at the last moment

    def await_position(self, strike: Strike) -> None:
        poll_until(lambda: self.position(strike.partition) > strike.start, TAKEOVER_SECONDS, POLL_SECONDS)


def describe(strike: Strike | None, fault: PlannedFault) -> str:
    """Whom a fault struck, in words."""
    if strike is None:
        return ""
    return f"worker {strike.pid} at {fault.step} of partition {strike.partition} from offset {strike.start}"


def resume(pid: int) -> None:
    """Let a worker continue that stops itself. A signal that came before it has stopped would be lost."""
    with suppress(psutil.NoSuchProcess):
        worker = psutil.Process(pid)
        poll_until(lambda: worker.status() == psutil.STATUS_STOPPED, STOP_SECONDS, POLL_SECONDS)
        worker.resume()
