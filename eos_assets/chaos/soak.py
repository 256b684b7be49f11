"""A soak: load and run under faults, then heal, drain, prove, and check the history."""

import time
from dataclasses import dataclass

from eos_assets.chaos.checker import find_anomalies
from eos_assets.chaos.clients import Follower, Loader, read_topics
from eos_assets.chaos.evidence import Event, committed_transactions, run_operations, transaction_operations
from eos_assets.chaos.fault_plan import plan_faults
from eos_assets.chaos.history import History, count_operations
from eos_assets.chaos.injector import Injector
from eos_assets.chaos.result import SoakOptions, SoakResult
from eos_assets.chaos.runner import soaked
from eos_assets.chaos.sampler import Sampler
from eos_assets.chaos.samples import Silence, longest_silence, memory_use, progress_moments
from eos_assets.chaos.servers import SoakServers
from eos_assets.chaos.trace import read_events
from eos_assets.deadlines import poll_until
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.admin import create_topics
from eos_assets.platform.spark_session import start_session
from eos_assets.verify.verify import verify_pipeline

#: How long the first run, the last fill, and a healed pipeline may take, and the follower to read the last outputs.
START_SECONDS, LOAD_SECONDS, DRAIN_SECONDS, READ_SECONDS = 120.0, 150.0, 300.0, 60.0
POLL_SECONDS = 0.2
#: The records that are loaded before the soak.
FIRST_RECORDS = 100


@dataclass(frozen=True)
class SoakStatus:
    """A soak at one moment."""

    seconds: float
    #: What it is doing now, in words.
    activity: str
    faults: int
    last_fault: str
    loaded: int
    committed: int
    lag: int


class Soak:
    """One soak on servers that are running. Its status may be asked for meanwhile."""

    def __init__(self, options: SoakOptions, pipeline: Pipeline, servers: SoakServers) -> None:
        self.options = options
        self.pipeline = soaked(pipeline)
        self.servers = servers
        self.connection = servers.connection
        self.result = SoakResult(options)
        self.activity = "creating topics"
        create_topics([self.pipeline.source, *self.pipeline.own_topics()], self.connection)
        self.outputs = [*(sink.name for sink in self.pipeline.sinks), self.pipeline.names().dead_letters]
        self.loader = Loader(self.connection, self.pipeline.source.name, options.rate)
        self.follower = Follower(self.connection, self.outputs, self.pipeline.names().ledger)
        self.started = time.monotonic()
        self.sampler = Sampler(self)

    @property
    def elapsed(self) -> float:
        """Seconds since the start, which is when the first run has committed."""
        return time.monotonic() - self.started

    @property
    def lag(self) -> int:
        """The loaded records that are not committed yet."""
        return max(0, self.loader.loaded - self.follower.committed)

    def status(self) -> SoakStatus:
        faults = [fault for fault in self.result.faults if fault.struck]
        last = f"{faults[-1].planned.kind}: {faults[-1].struck}" if faults else "none"
        counts = self.loader.loaded, self.follower.committed, self.lag
        return SoakStatus(self.elapsed, self.activity, len(faults), last, *counts)

    def run(self) -> SoakResult:
        """Do everything. The servers are left running, without runners."""
        self.activity = "starting the first run"
        self.start_first_run()
        self.started = time.monotonic()
        try:
            for client in (self.sampler, self.follower, self.loader):
                client.start()
            self.inject_faults()
            self.drain()
            self.prove()
            self.check_history()
        finally:
            self.loader.end(0)
            self.sampler.end()
            self.follower.end()
        self.result.seconds = self.elapsed
        return self.result

    def start_first_run(self) -> None:
        """Run over a few records, so that the soak does not begin with a cold Spark."""
        self.loader.fill(FIRST_RECORDS)
        runner = self.servers.launch()
        committed = poll_until(
            lambda: not runner.is_alive() or any(each["event"] == "committed" for each in self.events()),
            START_SECONDS,
            POLL_SECONDS,
        )
        if not committed or not runner.is_alive():
            raise EosError(f"The first run committed nothing: {runner.log_tail()}", f"See {runner.log}.")

    def events(self) -> list[Event]:
        return read_events(self.servers.trace)

    def inject_faults(self) -> None:
        """Inject the planned faults while records are loaded. Afterwards everything is healed."""
        chosen = self.options
        plan = plan_faults(
            chosen.seed, chosen.kinds, seconds=chosen.seconds, every=chosen.every, brokers=chosen.brokers
        )
        injector = Injector(self.servers, lambda partition: self.follower.positions.get(partition, 0))
        for planned in plan:
            self.activity = "running"
            time.sleep(max(0.0, planned.at - self.elapsed))
            if self.elapsed >= chosen.seconds and planned.kind in {fault.planned.kind for fault in self.result.faults}:
                continue  # earlier faults took long; but every kind that was planned is injected
            self.activity = f"injecting {planned.kind}"
            self.result.faults.append(injector.inject(planned, self.started))
        self.activity = "running"
        time.sleep(max(0.0, chosen.seconds - self.elapsed))
        for kind in sorted({fault.planned.kind for fault in self.result.faults} - set(self.result.struck)):
            self.result.failures.append(f"No fault of kind {kind} has struck.")

    def drain(self) -> None:
        """Stop loading, and wait until everything is committed."""
        self.activity = "draining"
        if not self.loader.end(LOAD_SECONDS):
            self.result.failures.append(f"The loader did not end within {LOAD_SECONDS:g} s.")
        self.result.loaded_at = self.elapsed
        if not poll_until(self.is_drained, DRAIN_SECONDS, POLL_SECONDS):
            self.result.failures.append(
                f"{self.lag:,} records were not committed within {DRAIN_SECONDS:g} s after the last fault."
            )
        drained_at = self.elapsed
        self.servers.end_runners()
        self.result.failures += [
            f"{each.name} ended by itself, see {each.log}." for each in self.servers.failed_runners()
        ]
        self.result.commits = [each["time"] - self.started for each in self.events() if each["event"] == "committed"]
        self.result.silences += [
            longest_silence("run", self.result.commits, drained_at),
            longest_silence("fill", progress_moments(self.result.progress), self.result.loaded_at),
        ]

    def is_drained(self) -> bool:
        """Whether everything is committed. If no runner lives, another one is started."""
        self.servers.keep_one_runner()
        return not self.lag

    def prove(self) -> None:
        """Evaluate every invariant and every declared check on all that was written."""
        self.activity = "proving"
        began = self.elapsed
        spark = start_session(self.servers.settings, self.servers.spark.address)
        try:
            verification = verify_pipeline(self.pipeline, spark, self.connection, full=True)
            declared = [check.finding(self.pipeline, spark, self.connection) for check in self.pipeline.checks]
        finally:
            spark.stop()
        self.result.findings = [*verification.findings, *declared]
        self.result.silences.append(Silence("verify", round(self.elapsed - began, 1), round(began, 1)))

    def check_history(self) -> None:
        """Read everything once more, and look for anomalies in what all clients have seen."""
        self.activity = "checking the history"
        source, events = self.pipeline.source.name, self.events()
        reads = list(read_topics(self.connection, [source, *self.outputs], "final"))
        if not self.follower.await_reads([read for read in reads if read.topic != source], READ_SECONDS):
            self.result.failures.append("The reader that followed the outputs did not receive the last ones.")
        history = History(
            source,
            loads=self.loader.operations,
            runs=run_operations(events),
            transactions=transaction_operations(events),
            reads=[*self.follower.operations, *reads],
            committed=committed_transactions(self.connection, self.pipeline.names()),
        )
        self.result.anomalies = find_anomalies(history)
        self.result.counts = count_operations(history)
        self.result.memory = memory_use(self.result.memory_samples, self.options.seconds)
