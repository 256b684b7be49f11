"""The daemon of `eos up` is Dagster's own, with shorter rounds of its sensors."""

import inspect
import sys

import dagster as dg
import pytest
from dagster._daemon import sensor

from eos_assets.local import daemon


def test_the_installed_dagster_reads_the_seconds_of_a_round() -> None:
    assert sensor.MIN_INTERVAL_LOOP_TIME >= daemon.ROUND_SECONDS
    assert "MIN_INTERVAL_LOOP_TIME" in inspect.getsource(sensor.execute_sensor_iteration_loop)


def test_the_arguments_are_those_of_dagsters_daemon(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dg.DagsterInstance, "get", dg.DagsterInstance.ephemeral)
    monkeypatch.setattr(sensor, "MIN_INTERVAL_LOOP_TIME", sensor.MIN_INTERVAL_LOOP_TIME)
    monkeypatch.setattr(sys, "argv", ["daemon", "--help"])
    with pytest.raises(SystemExit):
        daemon.main()
    assert "run [OPTIONS]" in capsys.readouterr().out
    assert sensor.MIN_INTERVAL_LOOP_TIME == daemon.ROUND_SECONDS
