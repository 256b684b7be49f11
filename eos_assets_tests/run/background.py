"""A run beside the test: in a thread of its own, or stopped in the middle."""

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

    def __init__(self, lab: Lab, failures: Faults | None = None, **options: Any) -> None:
        self.report: RunReport | None = None
        self.error: BaseException | None = None

        def work() -> None:
            try:
                self.report = lab.run(failures, **options)
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


def stopped(folder: Path, partition: int = 0) -> int:
    """The id of the worker that stopped itself. It leaves its id just before: a signal to go on may come too early."""
    file = folder / f"{partition}.pid"
    pid = int(wait_for(lambda: file.exists() and file.read_text()))
    wait_for(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    return pid
