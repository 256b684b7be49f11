"""Sensors with real daemons: failed runs are tried again with back-off, and a topic that grows is followed."""

import pytest
from confluent_kafka.admin import NewPartitions

from eos_assets.defs.tries import FIRST_WAIT_SECONDS
from eos_assets_tests.served.stack import ServedStack, eventually

pytestmark = pytest.mark.timeout(1200)


def test_a_failed_run_is_tried_again_later_until_it_succeeds_and_a_new_partition_joins(served: ServedStack) -> None:
    """The service that `moody` asks comes after its second try; meanwhile its source grows."""
    dagster = served.dagster
    served.produce("moody-in", [b"1", b"2"])
    eventually(lambda: len(dagster.runs("moody_job")) >= 2)
    served.connection.admin.create_partitions([NewPartitions("moody-in", 2)])["moody-in"].result()
    eventually(lambda: len(served.connection.partitions("moody-in")) == 2)
    served.produce("moody-in", [b"3"], partition=1)
    served.service.touch()
    eventually(lambda: served.count("moody-out") == 3)
    eventually(lambda: all(run.ended for run in dagster.runs("moody_job")))
    *later, second, first = dagster.runs("moody_job")
    assert first.status == "FAILURE"
    assert "given up" not in str(dagster.ticks("moody_new_records"))
    assert [first.tags["eos/try"], second.tags["eos/try"]] == ["1", "2"]
    assert second.asked - first.asked >= FIRST_WAIT_SECONDS, "not at once"
    assert "SUCCESS" in [run.status for run in (*later, second)]
    assert dagster.partitions("moody-out") == ["0", "1"]
    assert served.report("verify", "moody", "--full")["holds"]
