"""The compose file: what it promises is in it, and its very commands make a platform that works."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from eos_assets.local.ports import LOOPBACK
from eos_assets.settings import NAMES, Settings
from eos_assets_tests.docker.native import ROOT, Native, postgres_folder, services
from eos_assets_tests.served.graphql import Graphql
from eos_assets_tests.waiting import wait_for

#: Seconds for a run: three brokers, a cluster of Spark and Dagster share the cores of this machine.
PATIENCE = 480


def test_only_the_webserver_is_published_and_only_to_this_machine() -> None:
    published = {name: service["ports"] for name, service in services().items() if "ports" in service}
    assert published == {"webserver": ["127.0.0.1:3000:3000"]}


def test_every_service_has_limits_a_health_check_and_a_way_to_end() -> None:
    for name, service in services().items():
        limits = service["deploy"]["resources"]["limits"]
        assert set(limits) == {"cpus", "memory"}, name
        assert "healthcheck" in service, name
        assert "restart" in service, name


def test_the_brokers_keep_what_they_acknowledged() -> None:
    brokers = {name: service for name, service in services().items() if name.startswith("kafka")}
    assert len(brokers) == 3
    for service in brokers.values():
        environment = service["environment"]
        assert environment["KAFKA_DEFAULT_REPLICATION_FACTOR"] == 3
        assert environment["KAFKA_MIN_INSYNC_REPLICAS"] == 2
        assert environment["KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE"] == "false"
        assert environment["KAFKA_TRANSACTION_STATE_LOG_MIN_ISR"] == 2


def test_every_setting_in_it_is_one() -> None:
    used = {name for service in services().values() for name in service.get("environment", {})}
    assert {name for name in used if name.startswith("EOS_")} <= set(NAMES)


def test_the_image_installs_locked_versions() -> None:
    """The image's lock is the development lock without what only development needs."""

    def pins(path: Path) -> set[str]:
        return set(re.findall(r"^[\w.-]+==[\w.+]+", path.read_text(), re.MULTILINE))

    image, everything = pins(ROOT / "docker" / "requirements.lock"), pins(ROOT / "requirements.lock")
    assert image < everything
    assert not any(pin.startswith(("pytest", "mypy", "ruff")) for pin in image)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(declared["postgres"]) <= image


@pytest.fixture
def platform(settings: Settings, tmp_path: Path) -> Iterator[Native]:
    native = Native(tmp_path, settings)
    try:
        yield native
    finally:
        native.down()


@pytest.mark.timeout(1500)
@pytest.mark.skipif(postgres_folder() is None, reason="PostgreSQL is not installed (Debian: postgresql)")
def test_its_commands_make_a_platform_that_materializes_and_proves(platform: Native) -> None:
    platform.up()
    filled = platform.run("daemon", "eos", "fill", "datasource", "--count", "3000")
    assert filled.returncode == 0, filled.stderr
    dagster = Graphql(f"http://{LOOPBACK}:{platform.port('webserver', '3000')}")
    run = wait_for(lambda: dagster.finished("squares_job"), PATIENCE) or ""
    assert dagster.status(run) == "SUCCESS", "the sensor brought the new records over"
    launched = dagster.launch("squares_job", {"dagster/partition": "1"})
    assert wait_for(lambda: dagster.ended(launched), PATIENCE) == "SUCCESS"
    materialized = [event for event in dagster.events(launched) if event["__typename"] == "MaterializationEvent"]
    assert {event["partition"] for event in materialized if event["assetKey"]["path"] == ["datasink"]} == {"1"}
    checks = dagster.check_evaluations(launched)
    assert len(checks) == 12
    assert all(checks.values()), checks
    proof = platform.run("daemon", "eos", "verify", "squares", "--full", "--json")
    assert proof.returncode == 0, proof.stderr
    assert '"sink_records": 3000' in proof.stdout
    assert list(platform.volume("lake").rglob("*.parquet")), "the executors wrote to the lake's volume"
    left = [path.name for path in (platform.folder / "dagster-home").rglob("*") if path.is_file()]
    assert left == ["dagster.yaml"], "all state is in Postgres and on the volume"
