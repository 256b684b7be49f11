"""The alert of failed checks: what it names, and that it ends by itself. No server is needed."""

from collections.abc import Iterator
from dataclasses import replace

import dagster as dg
import pytest

from eos_assets.declare.check import Check, Finding
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.orchestration.checks import AUDIT_CHECK, invariant_checks
from eos_assets.orchestration.jobs import checks_job
from eos_assets.orchestration.keys import sink_keys, table_key
from eos_assets.orchestration.sensors.backoff import SensorAlert
from eos_assets.orchestration.sensors.check_status import load_check_status
from eos_assets.orchestration.sensors.failed_checks import failed_checks
from eos_assets_tests.run.lab import squared

PIPELINE = Pipeline("alerted", Topic("arrivals"), (Topic("departures"),), squared, version="1")
METADATA = {
    "partitions": dg.MetadataValue.table([dg.TableRecord({"partition": p, "from": 0, "upto": 9}) for p in (1, 0)]),
    "counter_examples": dg.MetadataValue.table([dg.TableRecord({"example": "sink_offset=7"})]),
}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def report(instance: dg.DagsterInstance, check: str = "none_invented", *, passed: bool, warning: bool = False) -> None:
    """Report an evaluation, as a run would."""
    audit = check == AUDIT_CHECK
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=table_key(PIPELINE, "audit_transactions") if audit else sink_keys(PIPELINE)[0],
            check_name=check,
            passed=passed,
            severity=dg.AssetCheckSeverity.WARN if warning else dg.AssetCheckSeverity.ERROR,
            description="1 records without an origin",
            metadata={} if passed else METADATA,
        )
    )


def tick(instance: dg.DagsterInstance) -> str:
    """The reason of a tick that raises no alert."""
    sensor = failed_checks(PIPELINE, checks_job(PIPELINE, [invariant_checks(PIPELINE)]))
    result = sensor(dg.build_sensor_context(instance=instance))
    assert isinstance(result, dg.SkipReason)
    return str(result.skip_message)


def test_the_alert_names_checks_partitions_a_counter_example_and_the_next_command(
    instance: dg.DagsterInstance,
) -> None:
    assert tick(instance) == "No check has failed."
    report(instance, passed=False)
    report(instance, AUDIT_CHECK, passed=False)
    with pytest.raises(SensorAlert) as alert:
        tick(instance)
    example = "1 records without an origin (for example sink_offset=7)"
    assert str(alert.value) == (
        f"alerted: Checks failed in partitions 0, 1: audit_matches_ledger: {example}; none_invented: {example}. "
        "Another run does not repair what is committed. Run `eos verify alerted --full` and follow a counter-example "
        "with `eos trace`. Write the audit tables again with `eos audit alerted --rebuild`. "
        "Launch the job alerted_checks: the alert ends once its checks pass."
    )


def test_the_alert_ends_when_the_checks_pass_again(instance: dg.DagsterInstance) -> None:
    for _ in range(2):
        report(instance, passed=False)
        with pytest.raises(SensorAlert):
            tick(instance)
        report(instance, passed=True)
        assert tick(instance) == "No check has failed."


def test_a_warning_raises_no_alert(instance: dg.DagsterInstance) -> None:
    report(instance, "no_open_transactions", passed=False, warning=True)
    assert tick(instance) == "No check has failed."


def test_a_check_that_is_not_blocking_raises_an_alert_and_holds_nothing_back(instance: dg.DagsterInstance) -> None:
    rules = tuple(Check(name, name, lambda *_: Finding(), blocking=name == "firm") for name in ("firm", "soft"))
    pipeline = replace(PIPELINE, checks=rules)
    report(instance, "soft", passed=False)
    status = load_check_status(instance, [pipeline])
    assert ([check.name for check in status.failed], status.blocking) == (["soft"], [])
    report(instance, "firm", passed=False)
    assert load_check_status(instance, [pipeline]).blocking == ["firm"]
