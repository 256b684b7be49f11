"""The process of a soak that runs the pipeline, again and again, until it is asked to end or is killed.

`python -m eos_assets.chaos.runner` takes its instructions as JSON.
"""

import json
import signal
import sys
import threading
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from eos_assets.chaos.history import Completion
from eos_assets.chaos.orders import ObedientFaults
from eos_assets.chaos.trace import write_event
from eos_assets.declare.options import Batching
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.registry import find_pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.platform.settings import Settings
from eos_assets.platform.spark_session import start_session
from eos_assets.run.run import RunOptions, run_pipeline

#: Small and short transactions: there are many to strike, and the broker soon aborts one whose worker is stopped.
BATCH_RECORDS, TIMEOUT_MS = 1_000, 8_000
#: The pause between two runs.
PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class Instructions:
    """What a runner runs, where, and where it leaves its trace."""

    pipeline: str
    bootstrap_servers: str
    spark: str
    folder: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def soaked(pipeline: Pipeline) -> Pipeline:
    """The pipeline with the transactions of a soak."""
    records = min(pipeline.batching.records, BATCH_RECORDS)
    return replace(pipeline, batching=Batching(records, pipeline.batching.bytes, TIMEOUT_MS))


def run_until(ended: threading.Event, instructions: Instructions) -> None:
    """Run the pipeline again and again, and write down what each run reported."""
    settings = Settings.load()
    pipeline = soaked(find_pipeline(instructions.pipeline, settings.modules))
    connection = Connection(instructions.bootstrap_servers)
    spark = start_session(settings, instructions.spark)
    folder = Path(instructions.folder)
    while not ended.wait(PAUSE_SECONDS):
        run = uuid.uuid4().hex[:12]
        write_event(folder, "called", run=run)
        options = RunOptions(
            run_id=run, faults=ObedientFaults(str(folder), run), accepted_spark=settings.accept_spark, max_attempts=3
        )
        try:
            report = run_pipeline(pipeline, spark, connection, options)
        except Exception as failure:  # the soak goes on: what this run committed is in the ledger
            write_event(folder, "returned", run=run, completion=Completion.UNKNOWN, committed=[], reason=str(failure))
            continue
        committed = [[entry.partition, entry.start, entry.next] for entry in report.entries]
        reason = "" if report.complete else (report.failures or ["gave up"])[-1]
        write_event(folder, "returned", run=run, completion=Completion.OK, committed=committed, reason=reason)
    spark.stop()  # the server need not keep the session


def main() -> None:
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    run_until(ended, Instructions(**json.loads(sys.argv[1])))


if __name__ == "__main__":
    main()
