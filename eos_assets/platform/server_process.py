"""A server process that was started earlier, perhaps by another command: recognized by process id and start time."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class ServerProcess:
    """One server process. Its start time distinguishes it from a later process with the same id."""

    name: str
    pid: int
    started: float
    log: Path
    #: Where the lines of this start begin: the log of earlier starts is kept.
    log_start: int = 0

    def handle(self) -> psutil.Process | None:
        """The living process, or None; never another process that has the same id now."""
        try:
            process = psutil.Process(self.pid)
            if start_time(self.pid) != self.started:
                return None
            if process.status() == psutil.STATUS_ZOMBIE:
                process.wait(0)
                return None
            return process
        except psutil.Error:
            return None

    def is_alive(self) -> bool:
        return self.handle() is not None

    def log_tail(self, lines: int = 15) -> str:
        """The last lines that were written since this start."""
        try:
            text = self.log.read_bytes()[self.log_start :].decode(errors="replace")
        except OSError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"

    def kill(self) -> None:
        """Send SIGKILL, as a crash would, and return when the process is gone."""
        process = self.handle()
        if process:
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                process.kill()
            process.wait(10)

    def terminate(self) -> None:
        """Ask the process to end, without waiting for it."""
        process = self.handle()
        if process:
            with suppress(psutil.NoSuchProcess):
                process.terminate()

    def pause(self) -> None:
        process = self.handle()
        if process:
            process.suspend()

    def resume(self) -> None:
        process = self.handle()
        if process:
            process.resume()


def start_time(pid: int) -> float:
    """When a process started: on Linux in clock ticks since boot, which do not change when the clock is set."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return float(fields[19])
    except (OSError, IndexError):
        return psutil.Process(pid).create_time()
