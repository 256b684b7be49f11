"""A server process: ended for certain, and told by its own lines."""

import sys
from pathlib import Path

import psutil
import pytest

from eos_assets.errors import EosError
from eos_assets.platform.process import ServerProcess, await_ready
from eos_assets_tests.waiting import wait_for


def spawn(folder: Path, program: str) -> ServerProcess:
    return ServerProcess.spawn("A server", [sys.executable, "-c", program], log=folder / "log", cwd=folder)


def test_killing_what_has_just_ended_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = spawn(tmp_path, "import time; time.sleep(60)")
    handle = psutil.Process(server.pid)
    server.kill()
    wait_for(lambda: not server.alive())
    monkeypatch.setattr(ServerProcess, "handle", lambda _: handle)  # as if it ended after the look
    server.kill()


def test_a_failed_start_shows_only_its_own_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("No space left on device\n")
    server = spawn(tmp_path, "print('this start')")
    with pytest.raises(EosError) as error:
        await_ready(server, lambda: False, 30, "Look into the log.")
    assert error.value.problem.endswith("log:\nthis start")
    assert error.value.remedy == "Look into the log."
