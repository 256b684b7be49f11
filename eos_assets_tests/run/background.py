"""A run in the background of a test, and a worker that stops itself in the middle of a run."""

import threading
from pathlib import Path
from typing import Any

import psutil

from eos_assets.experiment.faults import Faults
from eos_assets.run.report import RunReport
from eos_assets_tests.run.lab import Lab
from eos_assets_tests.waiting import wait_for


class Background:
    """A run in a thread of its own."""

    def __init__(self, lab: Lab, faults: Faults | None = None, **options: Any) -> None:
        self.report: RunReport | None = None
        self.error: BaseException | None = None

        def work() -> None:
            try:
                self.report = lab.run(faults, **options)
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=work)
        self.thread.start()

    def result(self) -> RunReport:
        self.thread.join(120)
        if self.error:
            raise self.error
        assert self.report is not None
        return self.report


def await_stopped(folder: Path, partition: int = 0) -> int:
    """Wait for the worker that stops itself, and return its process id. It writes the id just before it stops, and a
    signal to continue would then come too early."""
    file = folder / f"{partition}.pid"
    pid = int(wait_for(lambda: file.exists() and file.read_text()))
    wait_for(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    return pid
