"""The data of a home determines its cluster."""

import sys
from pathlib import Path

import pytest

from eos_assets.errors import EosError
from eos_assets.local.ports import require_distinct
from eos_assets.local.process import spawn
from eos_assets.local.stack import Stack
from eos_assets.platform.running import Server
from eos_assets.platform.settings import Settings
from eos_assets_tests.waiting import wait_for


@pytest.fixture
def stack(settings: Settings, tmp_path: Path) -> Stack:
    return Stack(settings.model_copy(update={"home": tmp_path}))


def format_broker(stack: Stack, number: int) -> None:
    data = stack.kafka_folder / f"broker-{number}" / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").touch()


def leave_passwords(stack: Stack) -> None:
    folder = stack.kafka_folder / "security"
    folder.mkdir(parents=True)
    (folder / "passwords.json").write_text("{}")


def test_three_brokers_stay_three_when_one_has_lost_its_data(stack: Stack) -> None:
    assert stack.formatted_brokers() == 0
    format_broker(stack, 1)
    assert stack.formatted_brokers() == 1
    format_broker(stack, 3)
    assert stack.formatted_brokers() == 3
    assert len(stack.cluster(None, 9092, []).nodes) == 3


def test_passwords_of_a_cluster_that_was_never_formatted_are_ignored(stack: Stack) -> None:
    leave_passwords(stack)
    assert stack.cluster(None, 9092, []).secured is None
    assert stack.security() is None


def test_the_passwords_of_a_formatted_cluster_are_kept(stack: Stack) -> None:
    format_broker(stack, 1)
    leave_passwords(stack)
    assert stack.cluster(None, 9092, []).secured is not None
    with pytest.raises(EosError, match="holds the data of a secured cluster"):
        stack.cluster(None, 9092, [], secured=False)


def test_dagster_shows_the_pipelines_of_the_modules_with_which_it_was_started(stack: Stack, tmp_path: Path) -> None:
    def wanting(*modules: str) -> Stack:
        return Stack(stack.settings.model_copy(update={"modules": modules}))

    assert wanting("mine", "theirs").environment()["EOS_MODULES"] == "mine,theirs"
    command = [sys.executable, "-c", "import time; print('started', flush=True); time.sleep(60)"]
    process = spawn("Dagster daemon", command, log=tmp_path / "log", cwd=tmp_path, env={"EOS_MODULES": "mine,theirs"})
    wait_for(lambda: process.log_tail() == "started")
    running = [Server("dagster-daemon", "", tmp_path, process)]
    assert wanting("mine").environment(running)["EOS_MODULES"] == "mine,theirs"
    with pytest.raises(EosError, match="Dagster is running without the pipelines of later"):
        wanting("mine", "later").modules(running)
    process.kill()
    assert wanting("later").modules(running) == "later", "a server that died is started again with other modules"


def test_one_port_for_two_servers_is_refused() -> None:
    with pytest.raises(EosError, match="Port 9093 is wanted for the controller and for Spark"):
        require_distinct([(9092, "Kafka", "a"), (9093, "the controller", "b"), (9093, "Spark", "--spark-port")])
