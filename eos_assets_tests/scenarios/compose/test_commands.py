"""The commands of the compose file start a platform that materializes a pipeline and proves it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eos_assets.orchestration.checks import AUDIT_CHECK, invariants
from eos_assets.pipelines.squares import squares
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.settings import Settings
from eos_assets_tests.kafka.reading import read_pairs
from eos_assets_tests.scenarios.compose.native import Native, postgres_folder
from eos_assets_tests.scenarios.served.graphql import Graphql
from eos_assets_tests.waiting import wait_for

#: Seconds for a run: three brokers, a Spark cluster and Dagster share the cores of this machine.
PATIENCE = 480


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
    assert dagster.status(run) == "SUCCESS", "the sensor started a run for the new records"
    checks = dagster.check_evaluations(run)
    assert set(checks) == set(invariants(squares))
    assert all(checks.values()), checks
    servers = f"{LOOPBACK}:{platform.port('kafka-1', '9092')}"

    def keys() -> list[int]:
        return sorted(int(key) for pairs in read_pairs(servers, "datasink").values() for key, _ in pairs)

    assert wait_for(lambda: len(keys()) >= 3000, PATIENCE), "even if the sensor started a run before all were written"
    assert keys() == list(range(3000))
    updated = wait_for(lambda: dagster.finished("squares_audit_job"), PATIENCE) or ""
    assert dagster.status(updated) == "SUCCESS", "another sensor updated the audit tables"
    assert dagster.check_evaluations(updated) == {AUDIT_CHECK: True}
    assert list(platform.volume("lake").rglob("*.parquet")), "the executors wrote to the lake's volume"
    left = [path.name for path in (platform.folder / "dagster-home").rglob("*") if path.is_file()]
    assert left == ["dagster.yaml"], "all state is in Postgres and on the volume"
