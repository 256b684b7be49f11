"""Free ports for the servers that `eos up` starts in a test."""

import pytest

from eos_assets_tests.cli.free_ports import free_ports


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Free ports of Kafka and Spark for `eos up`."""
    chosen = free_ports()
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    return int(chosen["EOS_KAFKA_PORT"]), int(chosen["EOS_SPARK_CONNECT_PORT"])
