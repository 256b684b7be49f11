"""The sensors, one tick at a time: what they request, when they repeat it, and when they raise an alert."""

from dataclasses import replace

import dagster as dg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from eos_assets.kafka.offsets import bounds
from eos_assets.local.daemon import fail_orphans
from eos_assets.orchestration.failures import MAX_RETRIES
from eos_assets.orchestration.partitions import range_tags
from eos_assets.orchestration.pipeline_definitions import pipeline_definitions
from eos_assets.orchestration.sensors import audit_update, backoff, new_records, stuck_partitions
from eos_assets.run.plan import PartitionPlan
from eos_assets_tests.orchestration.platform import Platform
from eos_assets_tests.run.lab import MakeLab, declare
from eos_assets_tests.waiting import wait_for


def tick(platform: Platform, cursor: str | None = None, sensor: str = "new_records") -> dg.SensorResult:
    definition = platform.defs.resolve_sensor_def(f"{platform.pipeline.name}_{sensor}")
    context = dg.build_sensor_context(
        instance=platform.instance, cursor=cursor, resources={"kafka": platform.resources()["kafka"]}
    )
    result = definition(context)
    assert isinstance(result, dg.SensorResult)
    return result


def evaluate(platform: Platform, sensor: str, cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
    """One tick of any sensor."""
    definition = platform.defs.resolve_sensor_def(f"{platform.pipeline.name}_{sensor}")
    resources = {name: platform.resources()[name] for name in definition.required_resource_keys}
    context = dg.build_sensor_context(instance=platform.instance, cursor=cursor, resources=resources)
    result = definition(context)
    assert isinstance(result, dg.SensorResult | dg.SkipReason)
    return result


def reason(result: dg.SensorResult | dg.SkipReason) -> str:
    """Why a tick did nothing."""
    if isinstance(result, dg.SensorResult):
        assert not result.run_requests
        assert not result.asset_events
        return str(result.skip_reason)
    return str(result.skip_message)


def may_be_repeated(platform: Platform, result: dg.ExecuteInProcessResult) -> bool:
    """Whether Dagster repeats a failed run, as its tags decide."""
    run = platform.instance.get_run_by_id(result.run_id)
    assert run is not None
    return run.tags.get(MAX_RETRIES) != "0"


def forge_record(platform: Platform) -> None:
    """Write a record to the sink that comes from no source record."""
    producer = Producer(platform.lab.connection.config())
    producer.produce(platform.lab.sink, b"25", b"5", 0)
    producer.flush()


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


def test_a_source_that_has_not_grown_is_not_planned_again_for_a_while(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = tick(platform)

    def plan(*_: object) -> None:
        raise AssertionError("planned")

    with monkeypatch.context() as watched:
        watched.setattr(new_records, "make_plan", plan)
        assert "No new records" in str(tick(platform, idle.cursor).skip_reason)
        with pytest.raises(AssertionError, match="planned"):
            tick(platform, long_ago(idle.cursor, new_records.IDLE_SECONDS))
        platform.lab.produce([b"1"])
        with pytest.raises(AssertionError, match="planned"):
            tick(platform, idle.cursor)
    assert tick(platform, idle.cursor).run_requests


def test_a_run_that_failed_after_its_commits_is_repeated_by_dagster_and_not_requested(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = platform.lab
    lab.fill(30)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Spark has ended")

    with monkeypatch.context() as broken:
        broken.setattr("eos_assets.orchestration.checks.verify_pipeline", fail)
        failed = platform.materialize()
    assert not failed.success
    assert len(lab.read()) == 30, "all records were committed"
    assert may_be_repeated(platform, failed)
    assert tick(platform).run_requests == [], "no records are new"
    with pytest.raises(
        backoff.SensorAlert, match=rf"not evaluated before run {failed.run_id[:8]} ended: .*none_invented"
    ):
        evaluate(platform, "failed_checks")
    assert platform.materialize().success
    assert evaluate(platform, "failed_checks") == dg.SkipReason("No check has failed.")


def test_a_failed_check_raises_an_alert_and_is_not_repeated(platform: Platform) -> None:
    lab = platform.lab
    lab.fill(30)
    assert platform.materialize().success
    assert evaluate(platform, "failed_checks") == dg.SkipReason("No check has failed.")
    forge_record(platform)
    lab.fill(30)
    failed = platform.materialize()
    assert not failed.success
    assert not may_be_repeated(platform, failed)
    alert = (
        rf"Checks failed in partitions 0, 1, 2: .*none_invented: .*for example topic={lab.sink}.*eos verify .* --full"
    )
    with pytest.raises(backoff.SensorAlert, match=alert):
        evaluate(platform, "failed_checks")
    assert tick(platform).run_requests == []


def test_the_audit_tables_follow_what_is_proven_and_are_updated_once_a_minute(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = platform.lab
    assert "Nothing was committed" in reason(evaluate(platform, "audit"))
    lab.fill(30)
    lab.run()
    assert "Waiting until what was committed is proven" in reason(evaluate(platform, "audit"))
    assert all(evaluation.passed for evaluation in platform.check().values())
    requested = evaluate(platform, "audit")
    assert isinstance(requested, dg.SensorResult)
    assert len(requested.run_requests or []) == 1
    lab.fill(30)
    assert platform.materialize().success
    assert "a moment ago" in reason(evaluate(platform, "audit", requested.cursor))
    monkeypatch.setattr(audit_update, "UPDATE_SECONDS", 0.0)
    again = evaluate(platform, "audit", requested.cursor)
    assert isinstance(again, dg.SensorResult)
    assert len(again.run_requests or []) == 1
    assert "Nothing was committed" in reason(evaluate(platform, "audit", again.cursor))
    forge_record(platform)
    lab.fill(30)
    assert not platform.materialize().success
    assert "checks failed: none_invented" in reason(evaluate(platform, "audit", again.cursor))


def test_what_was_committed_outside_dagster_is_reported_once(platform: Platform) -> None:
    lab = platform.lab
    lab.fill(30)
    report = lab.run()
    first = evaluate(platform, "other_commits")
    assert isinstance(first, dg.SensorResult)
    names = lab.pipeline.names()
    topics = [lab.sink, names.dead_letters, names.ledger, names.provenance]
    events = [event for event in first.asset_events if isinstance(event, dg.AssetMaterialization)]
    assert {(event.asset_key, event.partition) for event in events} == {
        (dg.AssetKey(topic), str(p)) for topic in topics for p in range(3)
    }
    assert {event.metadata["committed_by"].value for event in events} == {report.run}
    written = [event.metadata["records_in"].value for event in events if event.asset_key == dg.AssetKey(lab.sink)]
    assert sum(int(str(count)) for count in written) == 30
    assert "Nothing was committed outside" in reason(evaluate(platform, "other_commits", first.cursor))
    lab.fill(30)
    assert platform.materialize().success
    own = evaluate(platform, "other_commits", first.cursor)
    assert "Nothing was committed outside" in reason(own), "Dagster has materialized that itself"
    lab.fill(60)
    for records in (10, None):
        assert lab.run(max_records=records).complete
    assert isinstance(own, dg.SensorResult)
    others = evaluate(platform, "other_commits", own.cursor)
    assert isinstance(others, dg.SensorResult)
    assert len(others.asset_events) == 2 * len(topics) * 3, "each run in each partition of each topic"


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


def test_a_partition_that_is_later_than_declared_is_named() -> None:
    lab = declare(fresh_within=120)
    plan = PartitionPlan(2, 5, 0, 9, 9, None, None, 9)
    seen = {2: backoff.Requests(5, timestamp=1000.0)}
    assert stuck_partitions.find_stuck(lab, [plan], seen, 1119.0) == []
    ((partition, problem),) = stuck_partitions.find_stuck(lab, [plan], seen, 1121.0)
    assert partition == 2
    assert "lags by 4 offsets and committed nothing for 121 s, later than fresh_within=120 s" in problem
    assert stuck_partitions.find_stuck(declare(), [plan], seen, 1121.0) == []


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
    forge_record(platform)
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
