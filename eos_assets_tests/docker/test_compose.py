"""What the compose file and the image declare. The scenarios run the commands of the compose file."""

import re
import tomllib
from pathlib import Path

import pytest

from eos_assets.platform.settings import VARIABLES
from eos_assets_tests.docker.compose_file import COMPOSE, ROOT, services

DOCKERFILE = ROOT / "docker" / "Dockerfile"


def test_only_dagster_and_grafana_are_published_and_only_to_this_machine() -> None:
    published = {name: service["ports"] for name, service in services().items() if "ports" in service}
    assert published == {"webserver": ["127.0.0.1:3000:3000"], "grafana": ["127.0.0.1:3001:3000"]}


def test_every_service_has_limits_a_health_check_and_a_restart_policy() -> None:
    for name, service in services().items():
        limits = service["deploy"]["resources"]["limits"]
        assert set(limits) == {"cpus", "memory"}, name
        assert "healthcheck" in service, name
        assert "restart" in service, name


def test_one_service_builds_the_image_and_all_others_with_it_wait_for_that() -> None:
    declared = services()
    own = {name for name, service in declared.items() if service["image"] == "eos-assets"}
    assert [name for name, service in declared.items() if "build" in service] == ["create-topics"]
    assert {declared[name]["pull_policy"] for name in own} == {"never"}
    for name in own - {"create-topics"}:
        assert "create-topics" in dependencies(name), name


def dependencies(name: str) -> set[str]:
    """The services that a service waits for, directly or indirectly."""
    direct = set(services()[name].get("depends_on", {}))
    return direct.union(*map(dependencies, direct))


def test_the_memory_limits_add_up_to_the_figure_in_the_comment() -> None:
    limits = {name: service["deploy"]["resources"]["limits"]["memory"] for name, service in services().items()}
    megabytes = {name: int(text[:-1]) * {"m": 1, "g": 1024}[text[-1]] for name, text in limits.items()}
    comment = re.search(r"add up to (\d+) GB of memory, once create-topics has ended", COMPOSE.read_text())
    assert comment
    assert sum(megabytes.values()) - megabytes["create-topics"] == int(comment[1]) * 1024


def test_the_master_recovers_from_a_volume_that_the_image_owns() -> None:
    master = services()["spark-master"]
    (mount,) = master["volumes"]
    folder = mount.split(":")[1]
    assert f"-Dspark.deploy.recoveryDirectory={folder}" in master["environment"]["SPARK_MASTER_OPTS"]


def test_every_volume_is_mounted_on_a_folder_that_the_image_creates_for_its_user() -> None:
    (folders,) = re.findall(r"mkdir -p (.*?)&& chown", DOCKERFILE.read_text(), re.DOTALL)
    own = [service for service in services().values() if service["image"] == "eos-assets"]
    assert {mount.split(":")[1] for service in own for mount in service.get("volumes", ())} <= set(folders.split())


@pytest.mark.parametrize(
    ("setting", "users"),
    [
        ("EOS_LAKE", {"spark-worker-1", "spark-worker-2", "spark-connect"}),
        ("EOS_FILES_ROOT", {"spark-worker-1", "spark-worker-2", "daemon"}),
    ],
)
def test_the_services_that_share_tables_or_files_share_a_volume(setting: str, users: set[str]) -> None:
    folder = services()["daemon"]["environment"][setting]
    mounts = {(name, mount) for name, service in services().items() for mount in service.get("volumes", ())}
    sharing = {(name, mount.split(":")[0]) for name, mount in mounts if mount.split(":")[1] == folder}
    assert {name for name, _ in sharing} == users
    assert len({volume for _, volume in sharing}) == 1


def test_the_brokers_are_configured_to_keep_acknowledged_records() -> None:
    brokers = {name: service for name, service in services().items() if name.startswith("kafka")}
    assert len(brokers) == 3
    for service in brokers.values():
        environment = service["environment"]
        assert environment["KAFKA_DEFAULT_REPLICATION_FACTOR"] == 3
        assert environment["KAFKA_MIN_INSYNC_REPLICAS"] == 2
        assert environment["KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE"] == "false"
        assert environment["KAFKA_TRANSACTION_STATE_LOG_MIN_ISR"] == 2


def test_every_eos_variable_in_it_is_a_setting() -> None:
    used = {name for service in services().values() for name in service.get("environment", {})}
    assert {name for name in used if name.startswith("EOS_")} <= set(VARIABLES)


def test_the_image_installs_locked_versions() -> None:
    """The image's lock is the development lock without what only development needs."""

    def pins(path: Path) -> set[str]:
        return set(re.findall(r"^[\w.-]+==[\w.+]+", path.read_text(), re.MULTILINE))

    image, everything = pins(ROOT / "docker" / "requirements.lock"), pins(ROOT / "requirements.lock")
    assert image < everything
    assert not any(pin.startswith(("pytest", "mypy", "ruff")) for pin in image)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(declared["postgres"]) <= image
