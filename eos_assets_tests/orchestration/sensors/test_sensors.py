"""The sensors, one tick at a time: what they request, when they repeat it, and when they raise an alert."""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from eos_assets.kafka.offsets import bounds
from eos_assets.local.daemon import fail_orphans
from eos_assets.orchestration.partitions import range_tags
from eos_assets.orchestration.pipeline_definitions import pipeline_definitions
from eos_assets.orchestration.sensors import backoff, new_records, stuck_partitions
from eos_assets_tests.orchestration.platform import Platform
from eos_assets_tests.run.lab import MakeLab
from eos_assets_tests.waiting import wait_for


def tick(platform: Platform, cursor: str | None = None, sensor: str = "new_records") -> dg.SensorResult:
    definition = platform.defs.resolve_sensor_def(f"{platform.pipeline.name}_{sensor}")
    context = dg.build_sensor_context(
        instance=platform.instance, cursor=cursor, resources={"kafka": platform.resources()["kafka"]}
    )
    result = definition(context)
    assert isinstance(result, dg.SensorResult)
    return result


def test_the_sensor_requests_the_lagging_partitions_and_nothing_else(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = platform.lab
    first = tick(platform)
    assert first.run_requests == []
    requests = first.dynamic_partitions_requests or []
    assert [request.partition_keys for request in requests] == [["0", "1", "2"]]
    lab.produce([b"1", b"2"], partition=1)
    requested = tick(platform, first.cursor)
    (request,) = requested.run_requests or []
    assert range_tags(1, 1).items() <= request.tags.items()
    waiting = tick(platform, requested.cursor)
    assert waiting.run_requests == [], "the same position is not requested again immediately"
    monkeypatch.setattr(backoff, "FIRST_DELAY_SECONDS", 0.0)
    cursor, keys = requested.cursor, {request.run_key}
    for _ in range(backoff.MAX_REQUESTS - 1):
        again = tick(platform, cursor)
        cursor = again.cursor
        keys |= {r.run_key for r in again.run_requests or []}
    assert len(keys) == backoff.MAX_REQUESTS, "a used run key never runs again"
    with pytest.raises(backoff.SensorAlert, match=r"Gave up on .* after 5 runs: partitions 1 did not advance"):
        tick(platform, cursor)
    lab.run()
    assert tick(platform, cursor).run_requests == []


def test_a_failed_check_or_a_run_that_failed_after_its_commits_is_repeated(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = platform.lab
    monkeypatch.setattr(backoff, "FIRST_DELAY_SECONDS", 0.0)
    lab.fill(30)
    (Path(platform.lake).parent / "file").touch()
    broken = Platform(lab, platform.instance, str(Path(platform.lake).parent / "file" / "lake"))
    assert not broken.materialize().success, "the tables cannot be written"
    assert len(lab.read()) == 30, "all records were committed"
    requested = tick(platform)
    (request,) = requested.run_requests or []
    assert range_tags(0, 2).items() <= request.tags.items()
    assert platform.materialize().success
    assert tick(platform, requested.cursor).run_requests == []
    sensor = platform.defs.resolve_sensor_def(f"{platform.pipeline.name}_failed_checks")

    def checks_tick(cursor: str | None = None) -> dg.SensorResult:
        result = sensor(dg.build_sensor_context(instance=platform.instance, cursor=cursor))
        assert isinstance(result, dg.SensorResult)
        return result

    assert checks_tick().run_requests == []
    producer = Producer(lab.connection.config())
    producer.produce(lab.sink, b"25", b"5", 0)
    producer.flush()
    assert not platform.check()["none_invented"].passed
    cursor = None
    for _ in range(backoff.MAX_REQUESTS):
        again = checks_tick(cursor)
        (request,) = again.run_requests or []
        assert range_tags(0, 2).items() <= request.tags.items()
        cursor = again.cursor
    with pytest.raises(backoff.SensorAlert, match=r"Gave up on .* after 5 runs: checks failed: .*none_invented"):
        checks_tick(cursor)


def test_runs_of_a_daemon_that_ended_are_reported_as_failed() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        statuses = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED]
        runs = [instance.add_run(dg.DagsterRun(job_name="job", status=status)).run_id for status in statuses]
        assert fail_orphans(instance) == 1
        reported = [run.status for run_id in runs if (run := instance.get_run_by_id(run_id))]
        assert reported == [dg.DagsterRunStatus.FAILURE, *statuses[1:]]


def test_an_open_transaction_in_the_source_and_a_run_that_commits_nothing_raise_an_alert(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = platform.lab
    open_transaction = lab.open_transaction([b"1"])
    assert tick(platform).run_requests == [], "nothing is decided past the last stable offset"
    quiet = tick(platform, sensor="stuck")
    with pytest.raises(backoff.SensorAlert, match=f"an open transaction holds back {lab.source}/0"):
        tick(platform, long_ago(quiet.cursor, lab.pipeline.batching.timeout_ms / 1000), "stuck")
    open_transaction.abort_transaction(30)
    lab.produce([b"1", b"2"])
    lab.produce([b"3"], partition=1)
    monkeypatch.setattr(new_records, "has_active_run", lambda *_: True)
    waiting = tick(platform)
    assert waiting.skip_reason
    assert "run is active" in str(waiting.skip_reason.skip_message)
    seen = tick(platform, quiet.cursor, "stuck").cursor
    lab.run(partitions=[0])
    with pytest.raises(backoff.SensorAlert, match="partition 1 lags by 1 offsets and committed nothing"):
        tick(platform, long_ago(seen, stuck_partitions.STUCK_SECONDS), "stuck")
    lab.run()
    assert tick(platform, long_ago(seen, stuck_partitions.STUCK_SECONDS), "stuck").skip_reason, (
        "a partition that advances is not stuck"
    )


def long_ago(cursor: str | None, seconds: float) -> str:
    """The same cursor, as if it had been written this number of seconds earlier."""
    requests = backoff.Cursor.load(cursor).requests
    earlier = {name: replace(made, timestamp=made.timestamp - seconds - 1) for name, made in requests.items()}
    return backoff.Cursor(earlier).dump()


def test_bad_data_upstream_holds_back_the_next_pipeline(platform: Platform, make_lab: MakeLab) -> None:
    lab = platform.lab
    downstream = make_lab(source=lab.pipeline.sinks[0]).pipeline
    resources = dg.Definitions(resources=platform.resources())
    chained = dg.Definitions.merge(pipeline_definitions([platform.pipeline, downstream]), resources)
    lab.fill(30)
    assert platform.materialize().success
    sensor = chained.resolve_sensor_def(f"{downstream.name}_new_records")

    def requests() -> dg.SensorResult:
        context = dg.build_sensor_context(
            instance=platform.instance, resources={"kafka": platform.resources()["kafka"]}
        )
        result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        return result

    (request,) = requests().run_requests or []
    proven = {str(p): partition.stable for p, partition in bounds(lab.connection, lab.sink).items()}
    assert request.run_config["ops"][downstream.name]["config"]["upto"] == proven, "proven records are read"
    lab.fill(30)
    lab.run()
    (request,) = requests().run_requests or []
    assert request.run_config["ops"][downstream.name]["config"]["upto"] == proven, "unproven records are not"
    bounded = Platform(replace(lab, pipeline=downstream), platform.instance, platform.lake)
    assert bounded.materialize(upto=proven).success
    assert len(bounded.lab.read()) == 30
    waiting = requests()
    assert waiting.run_requests == []
    assert "proven upstream" in str(waiting.skip_reason)
    assert all(evaluation.passed for evaluation in platform.check().values())
    assert requests().run_requests, "they are read once they are proven"
    producer = Producer(lab.connection.config())
    producer.produce(lab.sink, b"25", b"5", 0)
    producer.flush()
    assert not platform.check()["none_invented"].passed
    held = requests()
    assert held.run_requests == []
    assert held.skip_reason
    assert "none_invented" in str(held.skip_reason.skip_message)


def test_a_new_partition_of_the_topic_becomes_a_partition_of_the_asset(platform: Platform) -> None:
    lab = platform.lab
    assert platform.materialize().success
    lab.connection.admin.create_partitions([NewPartitions(lab.source, 4)])[lab.source].result()
    wait_for(lambda: len(lab.connection.partitions(lab.source)) == 4)
    requests = tick(platform).dynamic_partitions_requests or []
    assert [request.partition_keys for request in requests] == [["3"]]
    lab.produce([b"7"], partition=3)
    assert platform.materialize(0, 3).success
    assert lab.values() == [b"49"]
