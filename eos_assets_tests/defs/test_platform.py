"""The platform through Dagster's own Python API: assets, checks, audit tables, sensors."""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from eos_assets.audit.check import audit_matches_ledger
from eos_assets.audit.tables import TABLES, AuditTables
from eos_assets.defs import sensors, tries
from eos_assets.defs.checks import AUDIT_FACT, FACTS
from eos_assets.defs.partitions import add_missing, range_tags
from eos_assets.defs.pipeline import pipeline_definitions
from eos_assets.local.daemon import end_orphans
from eos_assets_tests.defs.conftest import Platform, evaluations
from eos_assets_tests.exactly_once.lab import MakeLab
from eos_assets_tests.waiting import wait_for


def steps(result: dg.ExecuteInProcessResult, kind: dg.DagsterEventType) -> set[str | None]:
    return {event.step_key for event in result.all_events if event.event_type is kind}


def tables_of(platform: Platform) -> AuditTables:
    return AuditTables(platform.pipeline, platform.lab.spark, platform.lab.connection, platform.lake)


def test_a_range_is_one_run_with_figures_from_the_ledger_and_all_checks_green(platform: Platform) -> None:
    platform.lab.fill(900)
    result = platform.materialize()
    assert result.success
    platform.lab.assert_squares(range(900))
    events = [e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey(platform.lab.sink)]
    assert sorted(str(event.partition) for event in events) == ["0", "1", "2"]
    figures = [event.materialization.metadata for event in events]
    assert sum(int(str(f["records_in"].value)) for f in figures) == 900
    assert all(str(f["transactional_id"].value).startswith(f"eos/{platform.pipeline.name}/") for f in figures)
    found = evaluations(result)
    assert set(found) == {*FACTS, AUDIT_FACT}
    assert all(evaluation.passed for evaluation in found.values())
    tables = {
        e.asset_key.path[-1]: e
        for e in result.get_asset_materialization_events()
        if e.asset_key and len(e.asset_key.path) == 2
    }
    assert set(tables) == set(TABLES)
    rows = {name: event.materialization.metadata["dagster/row_count"].value for name, event in tables.items()}
    assert rows["audit_deliveries"] == 900
    assert rows["audit_transactions"] == 3
    again = platform.materialize()
    assert again.success
    nothing = [e for e in again.get_asset_materialization_events() if e.asset_key == dg.AssetKey(platform.lab.sink)]
    assert {e.materialization.metadata["range"].value for e in nothing} == {"nothing new"}
    platform.lab.assert_squares(range(900))


def test_a_single_partition_is_brought_over_alone(platform: Platform) -> None:
    platform.lab.fill(300)
    assert platform.materialize(1, 1).success
    assert {entry.partition() for entry in platform.lab.read(platform.pipeline.names().ledger)} == {1}


def test_one_topic_or_one_check_can_be_chosen_and_what_is_written_with_it_is_told(platform: Platform) -> None:
    lab, sink = platform.lab, dg.AssetKey(platform.lab.sink)
    lab.fill(30)
    add_missing(platform.instance, lab.source, lab.connection)
    everything = platform.defs.resolve_implicit_global_asset_job_def()
    topic = everything.get_subset(asset_selection={sink}, asset_check_selection=set())
    result = topic.execute_in_process(instance=platform.instance, tags=range_tags(0, 2))
    written = {(e.asset_key, e.partition) for e in result.get_asset_materialization_events()}
    names = lab.pipeline.names()
    topics = [lab.sink, names.dead_letters, names.ledger, names.provenance]
    assert written == {(dg.AssetKey(topic), str(p)) for topic in topics for p in range(3)}
    check = everything.get_subset(
        asset_selection=set(), asset_check_selection={dg.AssetCheckKey(sink, "no_duplicates")}
    )
    found = evaluations(check.execute_in_process(instance=platform.instance))
    assert {name: evaluation.passed for name, evaluation in found.items()} == {"no_duplicates": True}


def test_bad_data_stops_before_the_audit_tables_and_names_its_counter_example(platform: Platform) -> None:
    platform.lab.fill(300)
    assert platform.materialize().success
    producer = Producer(platform.lab.connection.config())
    producer.produce(platform.lab.sink, b"25", b"5", 0)
    producer.flush()
    platform.lab.fill(30)
    result = platform.materialize()
    assert not result.success
    begun = steps(result, dg.DagsterEventType.STEP_START)
    assert f"{platform.pipeline.name}_invariants" in begun
    assert f"{platform.pipeline.name}_audit" not in begun
    invented = evaluations(result)["none_invented"]
    assert not invented.passed
    shown = invented.metadata["counter_examples"]
    assert isinstance(shown, dg.TableMetadataValue)
    assert f"topic={platform.lab.sink}" in str(shown.records[0].data["example"])
    assert not platform.check()["none_invented"].passed, "a run of the checks alone sees it too"


def test_a_run_with_failures_is_harmless_and_one_without_hope_is_a_failure(platform: Platform) -> None:
    platform.lab.fill(300)
    hopeless = platform.materialize(failure_probability=1.0, max_attempts=1)
    assert not hopeless.success
    assert platform.lab.read() == []
    assert platform.materialize(failure_probability=0.3, seed=3).success
    platform.lab.assert_squares(range(300))


def test_the_audit_tables_hold_each_transaction_once_and_can_be_rebuilt(platform: Platform) -> None:
    lab, tables = platform.lab, tables_of(platform)
    lab.fill(300)
    lab.run()  # committed, and then a crash before any table was written
    tables.update()
    before = sorted(map(str, tables.read("audit_deliveries").collect()))
    assert len(before) == 300
    tables.update()
    assert sorted(map(str, tables.read("audit_deliveries").collect())) == before, "nothing new adds nothing"
    lab.fill(60)
    lab.produce([b"no number"])
    lab.run()
    states = {state.name: state.rows for state in tables.update()}
    assert states["audit_deliveries"] == 361
    assert states["audit_dead_letters"] == 1
    (letter,) = tables.read("audit_dead_letters").collect()
    assert (bytes(letter.value), letter.reason) == (b"no number", "no integer")
    assert audit_matches_ledger(tables).holds
    everything = sorted(map(str, tables.read("audit_deliveries").collect()))
    tables.update(rebuild=True)
    assert sorted(map(str, tables.read("audit_deliveries").collect())) == everything
    tables.spark.sql(f"delete from delta.`{tables.path('audit_deliveries')}` where source_offset = 5")
    found = audit_matches_ledger(tables)
    assert not found.holds
    assert "outputs" in found.examples[0]


def test_the_audit_tables_of_an_earlier_generation_make_way(platform: Platform) -> None:
    platform.lab.fill(300)
    platform.lab.run()
    tables_of(platform).update()
    lab = platform.lab.with_(generation=2, shared_sink=True)
    lab.create()
    tables = AuditTables(lab.pipeline, lab.spark, lab.connection, platform.lake)
    for records, rows in ((10, 30), (None, 300)):
        assert lab.run(max_records=records).complete
        tables.update()
        assert audit_matches_ledger(tables).holds
        assert tables.read("audit_deliveries").count() == rows
    assert len(lab.read()) == 600, "the new generation began at the beginning"
    assert lab.broken() == set()


def tick(platform: Platform, cursor: str | None = None) -> dg.SensorResult:
    sensor = platform.defs.resolve_sensor_def(f"{platform.pipeline.name}_new_records")
    context = dg.build_sensor_context(
        instance=platform.instance, cursor=cursor, resources={"kafka": platform.resources()["kafka"]}
    )
    result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    return result


def test_the_sensor_asks_for_the_lagging_partitions_and_is_quiet_otherwise(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = platform.lab
    first = tick(platform)
    assert first.run_requests == []
    requests = first.dynamic_partitions_requests or []
    assert [request.partition_keys for request in requests] == [["0", "1", "2"]]
    lab.produce([b"1", b"2"], partition=1)
    asked = tick(platform, first.cursor)
    (request,) = asked.run_requests or []
    assert range_tags(1, 1).items() <= request.tags.items()
    waiting = tick(platform, asked.cursor)
    assert waiting.run_requests == [], "the same position is not asked for again at once"
    monkeypatch.setattr(tries, "FIRST_WAIT_SECONDS", 0.0)
    cursor, keys = asked.cursor, {request.run_key}
    for _ in range(tries.TRIES - 1):
        again = tick(platform, cursor)
        cursor = again.cursor
        keys |= {r.run_key for r in again.run_requests or []}
    assert len(keys) == tries.TRIES, "a used run key never runs again"
    with pytest.raises(tries.GivenUp, match="did not move: given up"):
        tick(platform, cursor)
    lab.run()
    assert tick(platform, cursor).run_requests == []


def test_a_failed_check_or_a_run_that_failed_behind_its_commit_brings_another_run(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = platform.lab
    monkeypatch.setattr(tries, "FIRST_WAIT_SECONDS", 0.0)
    lab.fill(30)
    (Path(platform.lake).parent / "file").touch()
    broken = Platform(lab, platform.instance, str(Path(platform.lake).parent / "file" / "lake"))
    assert not broken.materialize().success, "there is no place for the tables"
    assert len(lab.read()) == 30, "and yet everything was committed"
    asked = tick(platform)
    (request,) = asked.run_requests or []
    assert range_tags(0, 2).items() <= request.tags.items()
    assert platform.materialize().success
    assert tick(platform, asked.cursor).run_requests == []
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
    for _ in range(tries.TRIES):
        again = checks_tick(cursor)
        (request,) = again.run_requests or []
        assert range_tags(0, 2).items() <= request.tags.items()
        cursor = again.cursor
    with pytest.raises(tries.GivenUp, match=r"none_invented.* failed 5 times: given up"):
        checks_tick(cursor)


def test_runs_of_a_daemon_that_ended_are_told_to_have_failed() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        statuses = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED]
        runs = [instance.add_run(dg.DagsterRun(job_name="job", status=status)).run_id for status in statuses]
        assert end_orphans(instance) == 1
        found = [run.status for run_id in runs if (run := instance.get_run_by_id(run_id))]
        assert found == [dg.DagsterRunStatus.FAILURE, *statuses[1:]]


def test_what_holds_the_source_back_or_a_run_that_commits_nothing_is_said_aloud(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = platform.lab
    open_transaction = lab.open_transaction([b"1"])
    quiet = tick(platform)
    assert quiet.run_requests == [], "behind the last stable offset nothing is decided"
    with pytest.raises(tries.GivenUp, match=f"{lab.source}/0: an open transaction holds the source back"):
        tick(platform, long_ago(quiet.cursor, lab.pipeline.transaction_timeout_ms / 1000))
    open_transaction.abort_transaction(30)
    lab.produce([b"1", b"2"])
    monkeypatch.setattr(sensors, "active_runs", lambda *_: True)
    waiting = tick(platform, quiet.cursor)
    assert waiting.skip_reason
    assert "under way" in str(waiting.skip_reason.skip_message)
    with pytest.raises(tries.GivenUp, match="has committed nothing for"):
        tick(platform, long_ago(waiting.cursor, sensors.STUCK_SECONDS))
    lab.run()
    assert tick(platform, long_ago(waiting.cursor, sensors.STUCK_SECONDS)).skip_reason, "what moves is not stuck"


def long_ago(cursor: str | None, seconds: float) -> str:
    """The same cursor, as if all of it had been written so many seconds earlier."""
    known = tries.Cursor.load(cursor)
    return tries.Cursor({n: replace(t, asked_at=t.asked_at - seconds - 1) for n, t in known.tries.items()}).dump()


def test_bad_data_upstream_holds_the_next_pipeline_back(platform: Platform, make_lab: MakeLab) -> None:
    lab = platform.lab
    behind = make_lab(source=lab.pipeline.sinks[0]).pipeline
    resources = dg.Definitions(resources=platform.resources())
    chained = dg.Definitions.merge(pipeline_definitions([platform.pipeline, behind]), resources)
    lab.fill(30)
    assert platform.materialize().success
    sensor = chained.resolve_sensor_def(f"{behind.name}_new_records")

    def requests() -> dg.SensorResult:
        context = dg.build_sensor_context(
            instance=platform.instance, resources={"kafka": platform.resources()["kafka"]}
        )
        result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        return result

    assert requests().run_requests, "what is proven goes on"
    producer = Producer(lab.connection.config())
    producer.produce(lab.sink, b"25", b"5", 0)
    producer.flush()
    assert not platform.check()["none_invented"].passed
    held = requests()
    assert held.run_requests == []
    assert held.skip_reason
    assert "none_invented" in str(held.skip_reason.skip_message)


def test_a_new_partition_of_the_topic_becomes_one_of_the_asset(platform: Platform) -> None:
    lab = platform.lab
    assert platform.materialize().success
    lab.connection.admin.create_partitions([NewPartitions(lab.source, 4)])[lab.source].result()
    wait_for(lambda: len(lab.connection.partitions(lab.source)) == 4)
    requests = tick(platform).dynamic_partitions_requests or []
    assert [request.partition_keys for request in requests] == [["3"]]
    lab.produce([b"7"], partition=3)
    assert platform.materialize(0, 3).success
    assert lab.values() == [b"49"]


def test_the_source_topic_is_observed(platform: Platform) -> None:
    platform.lab.fill(90)
    job = platform.defs.resolve_implicit_global_asset_job_def()
    chosen = job.get_subset(asset_selection={dg.AssetKey(platform.lab.source)})
    for lag in (90, 90):
        (event,) = chosen.execute_in_process(instance=platform.instance).get_asset_observation_events()
        metadata = event.asset_observation_data.asset_observation.metadata
        assert metadata["last_stable_offset"].value == 90
        assert metadata[f"lag_{platform.pipeline.name}"].value == lag
    assert "records_per_second" in metadata
