"""The assets, their metadata and their checks, through Dagster's Python API."""

import uuid

import dagster as dg
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition

from eos_assets.audit.tables import TABLES
from eos_assets.declare.topic import Topic
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets.log import ledger
from eos_assets.log.ledger import LedgerEntry
from eos_assets.orchestration.checks import AUDIT_CHECK, INVARIANTS, UNIQUE_NAME
from eos_assets.orchestration.fill_job import fill_source
from eos_assets.orchestration.partitions import add_new_partitions, range_tags
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets_tests.orchestration.platform import Platform, evaluations


def steps(result: dg.ExecuteInProcessResult, kind: dg.DagsterEventType) -> set[str | None]:
    return {event.step_key for event in result.all_events if event.event_type is kind}


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
    evaluated = evaluations(result)
    assert set(evaluated) == {*INVARIANTS} - {UNIQUE_NAME}
    assert all(evaluation.passed for evaluation in evaluated.values())
    entries = [ledger.read(message) for message in platform.lab.read(platform.pipeline.names().ledger)]
    runs = {entry.run for entry in entries if isinstance(entry, LedgerEntry)}
    assert runs == {result.run_id}, "ledger and Dagster name the same run"
    updated = platform.update_tables()
    assert {name: evaluation.passed for name, evaluation in evaluations(updated).items()} == {AUDIT_CHECK: True}
    tables = {
        e.asset_key.path[-1]: e
        for e in updated.get_asset_materialization_events()
        if e.asset_key and len(e.asset_key.path) == 2
    }
    assert set(tables) == set(TABLES)
    rows = {name: event.materialization.metadata["dagster/row_count"].value for name, event in tables.items()}
    assert rows["audit_deliveries"] == 900
    assert rows["audit_transactions"] == 3
    again = platform.materialize()
    assert again.success
    nothing = [e for e in again.get_asset_materialization_events() if e.asset_key == dg.AssetKey(platform.lab.sink)]
    metadata = [event.materialization.metadata for event in nothing]
    assert {described["range"].value for described in metadata} == {"nothing new"}
    assert {described["committed_by"].value for described in metadata} == {result.run_id}
    assert sum(int(str(described["position"].value)) for described in metadata) == 900
    platform.lab.assert_squares(range(900))


def test_a_single_partition_is_materialized_alone(platform: Platform) -> None:
    platform.lab.fill(300)
    assert platform.materialize(1, 1).success
    assert {entry.partition() for entry in platform.lab.read(platform.pipeline.names().ledger)} == {1}


def test_a_single_topic_or_check_can_be_selected_and_the_topics_written_with_it_are_materialized_too(
    platform: Platform,
) -> None:
    lab, sink = platform.lab, dg.AssetKey(platform.lab.sink)
    lab.fill(30)
    add_new_partitions(platform.instance, lab.source, lab.connection)
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
    evaluated = evaluations(check.execute_in_process(instance=platform.instance))
    assert {name: evaluation.passed for name, evaluation in evaluated.items()} == {"no_duplicates": True}


def test_bad_data_stops_before_the_audit_tables_and_names_its_counter_example(platform: Platform) -> None:
    platform.lab.fill(300)
    assert platform.materialize().success
    producer = Producer(platform.lab.connection.config())
    producer.produce(platform.lab.sink, b"25", b"5", 0)
    producer.flush()
    platform.lab.fill(30)
    result = platform.materialize_all()
    assert not result.success
    started = steps(result, dg.DagsterEventType.STEP_START)
    assert f"{platform.pipeline.name}_invariants" in started
    assert f"{platform.pipeline.name}_audit" not in started
    invented = evaluations(result)["none_invented"]
    assert not invented.passed
    shown = invented.metadata["counter_examples"]
    assert isinstance(shown, dg.TableMetadataValue)
    assert f"topic={platform.lab.sink}" in str(shown.records[0].data["example"])
    assert not platform.check()["none_invented"].passed, "a run of the checks alone sees it too"


def test_a_run_with_some_failures_succeeds_and_a_run_of_failures_alone_fails(platform: Platform) -> None:
    platform.lab.fill(300)
    hopeless = platform.materialize(failure_probability=1.0, max_attempts=1)
    assert not hopeless.success
    assert platform.lab.read() == []
    assert platform.materialize(failure_probability=0.3, seed=3).success
    platform.lab.assert_squares(range(300))


def test_a_job_fills_the_source_of_the_experiment(connection: Connection) -> None:
    job = dg.Definitions(
        jobs=[fill_source], resources={"kafka": KafkaResource(bootstrap_servers=connection.bootstrap_servers)}
    ).resolve_job_def("fill_source")
    topic = Topic(f"t{uuid.uuid4().hex[:10]}", partitions=2)
    create_topics([topic], connection)
    with dg.DagsterInstance.ephemeral() as instance:
        config = {"ops": {"fill_topic": {"config": {"topic": topic.name, "count": 500}}}}
        assert job.execute_in_process(instance=instance, run_config=config).success
        (observed,) = instance.fetch_observations(dg.AssetKey(topic.name), limit=1).records
    assert sum(partition.stable for partition in bounds(connection, topic.name).values()) == 500
    observation = observed.asset_observation
    assert observation is not None
    metadata = observation.metadata
    assert (metadata["last_stable_offset"].value, metadata["next"].value) == (500, 500)
    connection.admin.delete_topics([topic.name])[topic.name].result()


def test_what_a_failed_run_committed_is_materialized(platform: Platform) -> None:
    lab = platform.lab
    lab.fill(300)
    assert platform.materialize().success
    lab.fill(300)
    moved = ConsumerGroupTopicPartitions(lab.pipeline.names().group, [TopicPartition(lab.source, 2, 1)])
    for future in lab.connection.admin.alter_consumer_group_offsets([moved]).values():
        future.result()
    result = platform.materialize()
    assert not result.success
    events = [e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey(lab.sink)]
    assert {event.partition for event in events} == {"0", "1"}, "partition 2 was refused, the others were committed"


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
