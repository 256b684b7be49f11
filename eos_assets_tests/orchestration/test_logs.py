"""Messages of the library in the log of a run."""

import logging
import threading

import pytest

from eos_assets.orchestration.logs import forward_messages


def test_the_messages_of_its_own_thread_reach_the_log_of_a_run(caplog: pytest.LogCaptureFixture) -> None:
    library, log = logging.getLogger("eos_assets.run.run"), logging.getLogger("a log of a run")
    with forward_messages(log):
        library.warning("attempt %d: %s", 1, "killed")
        other = threading.Thread(target=library.warning, args=("of another run",))
        other.start()
        other.join()
    library.warning("after the run")
    assert [record.getMessage() for record in caplog.records if record.name == log.name] == ["attempt 1: killed"]
