"""Server processes: stopped reliably, and diagnosed by the log lines of their own start."""

import sys
from pathlib import Path

import psutil
import pytest

from eos_assets.errors import EosError
from eos_assets.local.process import await_ready, spawn
from eos_assets.platform.server_process import ServerProcess
from eos_assets_tests.waiting import wait_for


def spawn_python(folder: Path, program: str) -> ServerProcess:
    return spawn("A server", [sys.executable, "-c", program], log=folder / "log", cwd=folder)


def test_killing_a_process_that_has_just_ended_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = spawn_python(tmp_path, "import time; time.sleep(60)")
    handle = psutil.Process(server.pid)
    server.kill()
    wait_for(lambda: not server.is_alive())
    monkeypatch.setattr(ServerProcess, "handle", lambda _: handle)  # as if it ended right after the check
    server.kill()


def test_a_failed_start_shows_only_its_own_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("No space left on device\n")
    server = spawn_python(tmp_path, "print('this start')")
    with pytest.raises(EosError) as error:
        await_ready(server, lambda: False, 30, "See the log.")
    assert error.value.problem.endswith("log:\nthis start")
    assert error.value.remedy == "See the log."
