"""The fault matrix: after every fault, heal, finish, and count what a reader of committed data sees."""

import os
import signal
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic
from pyspark.sql import SparkSession

from eos_assets.errors import EosError
from eos_assets.exactly_once.failures import FAILPOINTS, Failures
from eos_assets.exactly_once.modes import Mode
from eos_assets.exactly_once.plan import make_plan
from eos_assets.exactly_once.report import RunReport
from eos_assets.kafka.offsets import bounds
from eos_assets.kafka.topics import Topic, await_visible, create_topics
from eos_assets.local.broker import KafkaCluster
from eos_assets.settings import Settings
from eos_assets_tests.exactly_once.lab import Lab, MakeLab, declare
from eos_assets_tests.waiting import wait_for


class Background:
    """A run in a thread of its own."""

    def __init__(self, lab: Lab, failures: Failures | None = None, **options: Any) -> None:
        self.report: RunReport | None = None
        self.error: BaseException | None = None

        def work() -> None:
            try:
                self.report = lab.run(failures, **options)
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=work)
        self.thread.start()

    def result(self) -> RunReport:
        self.thread.join(120)
        if self.error:
            raise self.error
        assert self.report is not None
        return self.report


def stopped(folder: Path, partition: int = 0) -> int:
    """The id of the worker that stopped itself."""
    file = folder / f"{partition}.pid"
    return int(wait_for(lambda: file.exists() and file.read_text()))


@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_crash_at_each_step_leaves_each_record_once(lab: Lab, failpoint: str) -> None:
    """F1, F2."""
    lab.fill(900)
    report = lab.run(Failures(failpoint=failpoint, action="exit"))
    assert report.complete
    lab.assert_squares(range(900))
    assert lab.lag() == 0
    assert [entry.start for entry in report.entries] == [0, 0, 0], "one entry per partition, also after a crash"


def test_all_invariants_hold_after_crashes_and_failures(lab: Lab) -> None:
    """F1 with several slices, failing transactions and a killed worker; every invariant from the topics."""
    lab = lab.with_(slice_records=100)
    lab.fill(3000)
    report = lab.run(Failures(probability=0.4, seed=5, failpoint="before_commit", action="exit"), max_attempts=60)
    assert report.complete
    lab.assert_squares(range(3000))
    assert lab.broken() == set()


def test_with_probability_one_nothing_ever_becomes_visible(lab: Lab) -> None:
    lab.fill(300)
    report = lab.run(Failures(probability=1), max_attempts=2)
    assert not report.complete
    assert report.attempts == 2
    assert report.entries == []
    assert lab.read() == []
    assert "InjectedFailure" in report.failures[-1]
    assert len(lab.read(isolation="read_uncommitted")) > 0, "they were written, and aborted"
    assert lab.run().complete
    lab.assert_squares(range(300))


def test_a_zombie_that_wakes_after_its_successor_is_fenced(make_lab: MakeLab, tmp_path: Path) -> None:
    """F4: stopped with everything produced, just before its commit."""
    lab = make_lab(partitions=1)
    lab.fill(500)
    zombie = Background(lab, Failures(failpoint="before_commit", action="stop", pid_folder=str(tmp_path)))
    pid = stopped(tmp_path)
    successor = lab.run()
    assert successor.complete
    os.kill(pid, signal.SIGCONT)
    report = zombie.result()
    assert report.entries == []
    assert [outcome.outcome for outcome in report.outcomes] == ["fenced"]
    assert report.complete, "the successor did its work"
    lab.assert_squares(range(500))
    assert lab.broken() == set()


def test_a_late_zombie_with_an_old_plan_writes_nothing(make_lab: MakeLab, tmp_path: Path) -> None:
    """F5: stopped before `init_transactions`, woken after its successor's commit."""
    lab = make_lab(partitions=1)
    lab.fill(500)
    zombie = Background(lab, Failures(failpoint="before_init", action="stop", pid_folder=str(tmp_path)))
    pid = stopped(tmp_path)
    assert lab.run().complete
    os.kill(pid, signal.SIGCONT)
    report = zombie.result()
    assert report.entries == []
    assert [outcome.outcome for outcome in report.outcomes] == ["already_done"]
    lab.assert_squares(range(500))
    assert lab.broken() == set()


def test_a_zombie_that_wakes_before_its_successor_commits_may_take_over(make_lab: MakeLab, tmp_path: Path) -> None:
    """F5, the other way round: the successor is the one that is fenced, and each range is there once."""
    lab = make_lab(partitions=1)
    lab.fill(500)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    zombie = Background(lab, Failures(failpoint="before_init", action="stop", pid_folder=str(tmp_path / "a")))
    first = stopped(tmp_path / "a")
    successor = Background(lab, Failures(failpoint="before_commit", action="stop", pid_folder=str(tmp_path / "b")))
    second = stopped(tmp_path / "b")
    os.kill(first, signal.SIGCONT)
    assert zombie.result().complete
    os.kill(second, signal.SIGCONT)
    assert successor.result().complete
    assert len(zombie.result().entries) + len(successor.result().entries) == 1
    lab.assert_squares(range(500))
    assert lab.broken() == set()


def test_two_runs_at_once_commit_each_range_once(lab: Lab) -> None:
    """F6."""
    lab = lab.with_(slice_records=200)
    lab.fill(3000)
    one, two = Background(lab), Background(lab)
    assert one.result().complete
    assert two.result().complete
    lab.assert_squares(range(3000))
    assert lab.broken() == set()


def test_a_transaction_that_times_out_is_aborted_and_tried_again(make_lab: MakeLab, tmp_path: Path) -> None:
    """F11: a task that sleeps through its transaction timeout."""
    lab = make_lab(partitions=1, transaction_timeout_ms=2000)
    lab.fill(200)
    slow = Background(lab, Failures(failpoint="before_commit", action="stop", pid_folder=str(tmp_path)))
    pid = stopped(tmp_path)
    wait_for(lambda: any(there.high > there.stable for there in bounds(lab.connection, lab.sink).values()))
    wait_for(lambda: all(there.high == there.stable for there in bounds(lab.connection, lab.sink).values()))
    os.kill(pid, signal.SIGCONT)
    report = slow.result()
    assert report.complete
    assert report.entries[0].task_attempt == 1, "the first attempt was lost"
    lab.assert_squares(range(200))
    assert lab.broken() == set()


def test_a_run_whose_transactions_all_time_out_names_the_cause(make_lab: MakeLab, tmp_path: Path) -> None:
    """F11: every attempt of the task sleeps through its timeout, so the run ends, and says of what."""
    lab = make_lab(partitions=1, transaction_timeout_ms=2000)
    lab.fill(200)
    asleep = Failures(failpoint="before_commit", action="stop", pid_folder=str(tmp_path), always=True)
    run = Background(lab, asleep, max_attempts=1)

    def aborted() -> bool:
        return all(there.high == there.stable > 0 for there in bounds(lab.connection, lab.sink).values() if there.high)

    while run.thread.is_alive():
        for file in tmp_path.glob("*.pid"):
            pid = int(file.read_text() or 0)
            wait_for(aborted)
            file.unlink()
            os.kill(pid, signal.SIGCONT)
        run.thread.join(0.1)
    report = run.result()
    assert not report.complete
    assert "the broker aborted a transaction that was open for longer than 2000 ms" in report.failures[-1]
    assert lab.read() == []
    assert lab.run().complete
    lab.assert_squares(range(200))
    assert lab.broken() == set()


def test_the_plan_ends_before_somebody_elses_open_transaction(make_lab: MakeLab) -> None:
    """F12."""
    lab = make_lab(partitions=1)
    lab.produce([b"%d" % n for n in range(10)])
    idle = lab.open_transaction([b"%d" % n for n in range(10, 20)])
    lab.produce([b"%d" % n for n in range(20, 30)])
    (plan,) = make_plan(lab.pipeline, lab.connection)
    assert (plan.stable_end, plan.high_watermark) == (10, 30)
    lab.run()
    lab.assert_squares(range(10))
    idle.commit_transaction(30)
    lab.run()
    lab.assert_squares(range(30))
    assert lab.broken() == set()


@pytest.mark.parametrize("shape", ["first", "last", "middle", "nothing else", "around a record"])
def test_holes_in_the_offsets_are_no_losses(make_lab: MakeLab, shape: str) -> None:
    """F13: markers and aborted records first, last, in the middle, and nothing but them."""
    lab = make_lab(partitions=1)
    hole = [b"99"] * 50
    wanted: list[int] = []
    if shape in ("first", "nothing else", "around a record"):
        lab.produce_transaction(hole, commit=False)
    if shape != "nothing else":
        lab.produce_transaction([b"1", b"2", b"3"], commit=True)
        wanted += [1, 2, 3]
    if shape in ("last", "middle", "around a record", "nothing else"):
        lab.produce_transaction(hole, commit=False)
    if shape == "middle":
        lab.produce([b"4", b"5"])
        wanted += [4, 5]
    assert lab.run().complete
    lab.assert_squares(wanted)
    assert lab.lag() == 0
    assert lab.broken() == set()


def compacted_source(lab: Lab) -> None:
    """The lab's source, made anew so that the broker compacts it within seconds."""
    connection, topic = lab.connection, lab.source
    connection.admin.delete_topics([topic])[topic].result()
    wait_for(lambda: topic not in connection.metadata().topics)
    config = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01"}
    connection.admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result()
    await_visible({topic}, connection)


def await_compaction(lab: Lab, left: int) -> None:
    """Writes markers until the active segment is rolled and the cleaner has been there."""

    def compacted() -> bool:
        lab.produce_transaction([b"0"], commit=False)
        return len(lab.read(lab.source)) == left

    wait_for(compacted, 120)


def test_compacted_records_are_no_losses(make_lab: MakeLab) -> None:
    """F13: holes that were there before the run, and holes that came after it."""
    lab = make_lab(partitions=1, source=Topic(f"t{uuid.uuid4().hex[:10]}-source", partitions=1, compacted=True))
    compacted_source(lab)
    for _ in range(3):
        lab.produce([b"1", b"2", b"3"])
    await_compaction(lab, 3)
    assert lab.run().complete
    assert set(lab.values()) == {b"1", b"4", b"9"}
    assert len(lab.values()) == 3
    assert lab.broken() == set()
    lab.produce([b"2", b"3"])
    assert lab.run().complete
    await_compaction(lab, 3)
    assert len(lab.values()) == 5
    proof = lab.proof(full=True)
    assert proof.holds, [finding for finding in proof.findings if not finding.holds]
    assert proof.figures["no_longer_provable"] == 2, "two source records have made way for later ones"
    forger = Producer(lab.connection.config())
    forger.produce(lab.sink, b"16", b"4", 0)
    forger.flush()
    assert {"none_invented", "values_recompute"} <= lab.broken(), "compaction excuses nothing else"


def test_deleted_group_offsets_are_restored_from_the_ledger(lab: Lab) -> None:
    """F14."""
    lab.fill(600)
    lab.run()
    group = lab.pipeline.names().group
    lab.connection.admin.delete_consumer_groups([group])[group].result()
    assert group_offsets(lab) == [None, None, None]
    assert lab.broken() == set(), "an absent group offset is normal after idle days"
    lab.run()
    lab.assert_squares(range(600))
    lab.fill(600)
    lab.run()
    lab.assert_squares(range(1200))
    assert group_offsets(lab) == [plan.position for plan in make_plan(lab.pipeline, lab.connection)]


def group_offsets(lab: Lab) -> list[int | None]:
    group = lab.pipeline.names().group
    wanted = [TopicPartition(lab.source, p) for p in range(3)]
    futures = lab.connection.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])
    found = futures[group].result().topic_partitions
    return [at.offset if at.offset >= 0 else None for at in sorted(found, key=lambda at: at.partition)]


def test_a_source_truncated_beyond_the_position_names_the_lost_range(make_lab: MakeLab) -> None:
    """F15."""
    lab = make_lab(partitions=1)
    lab.fill(100)
    lab.run(max_records=40)
    for future in lab.connection.admin.delete_records([TopicPartition(lab.source, 0, 70)]).values():
        future.result()
    with pytest.raises(EosError, match="offsets 40 to 69 were deleted"):
        lab.run()
    lab.assert_squares(range(40))
    following = lab.with_(generation=2, shared_sink=True)
    following.create()
    assert following.run().complete, "the way out that was said"
    lab.assert_squares([*range(40), *range(70, 100)])
    assert following.broken() == set()


def test_added_partitions_are_picked_up_once_from_their_start(make_lab: MakeLab) -> None:
    """F17."""
    lab = make_lab(partitions=3)
    lab.fill(400)
    lab.run()
    lab.connection.admin.create_partitions([NewPartitions(lab.source, 4)])[lab.source].result()
    wait_for(lambda: len(lab.connection.partitions(lab.source)) == 4)
    lab.produce([b"%d" % n for n in range(1000, 1050)], partition=3)
    report = lab.run()
    assert report.complete
    assert {entry.partition for entry in report.entries} == {3}
    lab.assert_squares([*range(400), *range(1000, 1050)])
    assert lab.broken() == set()


def test_the_first_transaction_of_a_cluster_waits_for_its_coordinator(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """A cold `init_transactions`: the topic of transactions is not there yet."""
    with KafkaCluster(tmp_path, settings=settings) as cluster:
        lab = Lab(spark, cluster.connection, declare())
        lab.create()
        lab.fill(300)
        assert "__transaction_state" not in lab.connection.metadata().topics
        report = lab.run()
        assert report.complete
        assert report.attempts == 1
        lab.assert_squares(range(300))
        assert lab.broken() == set()


def test_what_a_cluster_cannot_keep_is_refused_before_anything_runs(lab: Lab) -> None:
    lab.fill(30)
    with pytest.raises(EosError, match=r"transaction_timeout_ms=3600000, and the broker allows 900000"):
        lab.with_(transaction_timeout_ms=3_600_000).run()
    with pytest.raises(EosError, match="insists on durable topics"):
        lab.with_(durability="production").run()
    assert lab.read(isolation="read_uncommitted") == []


def test_a_source_that_grows_during_a_run_waits_for_the_next_one(make_lab: MakeLab) -> None:
    """F17, between two attempts."""
    lab = make_lab(partitions=1)
    lab.fill(100)

    def grow(_: str) -> None:
        lab.connection.admin.create_partitions([NewPartitions(lab.source, 2)])[lab.source].result()
        wait_for(lambda: len(lab.connection.partitions(lab.source)) == 2)

    assert not lab.run(Failures(probability=1), max_attempts=1, say=grow).complete
    lab.produce([b"1000"], partition=1)
    assert lab.run().complete
    assert sorted(int(value or 0) for value in lab.values()) == [number**2 for number in (*range(100), 1000)]
    assert lab.broken() == set()


def test_a_sink_that_holds_foreign_records_is_refused_for_one_partition_too(lab: Lab) -> None:
    lab.fill(30)
    producer = Producer(lab.connection.config())
    producer.produce(lab.sink, b"25", b"5", 0)
    producer.flush()
    for chosen in (None, [0]):
        with pytest.raises(EosError, match="The ledger is empty, but the sink is not"):
            lab.run(partitions=chosen)
    assert len(lab.read()) == 1


@pytest.mark.parametrize("which", ["source", "sink", "ledger"])
def test_a_topic_deleted_and_created_again_is_refused(lab: Lab, which: str) -> None:
    """F18."""
    lab.fill(300)
    lab.run()
    names = lab.pipeline.names()
    topic = {"source": lab.source, "sink": lab.sink, "ledger": names.ledger}[which]
    lab.connection.admin.delete_topics([topic])[topic].result()
    wait_for(lambda: topic not in lab.connection.metadata().topics)
    create_topics([lab.pipeline.source, *lab.pipeline.own_topics()], lab.connection)
    with pytest.raises(EosError, match=r"deleted and created again|but its provenance topic is not|is committed"):
        lab.run()
    if which != "sink":
        lab.assert_squares(range(300))
    if which == "ledger":
        assert "offsets_match_ledger" in lab.broken()
        return
    with pytest.raises(EosError, match="deleted and created again"):
        lab.proof(full=True)


def test_a_poison_record_becomes_a_dead_letter_with_its_own_bytes(make_lab: MakeLab) -> None:
    """F19."""
    lab = make_lab(partitions=1)
    lab.produce([b"1", b"2"])
    lab.produce([b"two \xff"], key=b"k", headers=[("trace", b"7")])
    lab.produce([b"3"])
    report = lab.run()
    assert report.summary()[0].dead == 1
    lab.assert_squares([1, 2, 3])
    (letter,) = lab.read(lab.pipeline.names().dead_letters)
    assert (letter.key(), letter.value()) == (b"k", b"two \xff")
    headers = dict(letter.headers() or [])
    assert headers["trace"] == b"7"
    assert headers["eos.error"] == b"no integer"
    assert headers["eos.origin"] == f"{lab.source}/0/2".encode()
    assert lab.broken() == set()


def test_a_record_too_large_for_the_sink_commits_nothing_and_is_named(make_lab: MakeLab) -> None:
    """F19: random bytes, which do not shrink in a compressed batch."""
    name = f"small-{uuid.uuid4().hex[:8]}"
    small = Topic(name, partitions=1, max_message_bytes=2000)
    lab = make_lab(lambda records: records.select("key", "value", "origin"), partitions=1, sink=[small])
    lab.produce([b"1", os.urandom(5000)], key=b"k")
    report = lab.run()
    assert not report.complete
    assert report.outcomes[-1].outcome == "failed"
    assert "too large" in report.outcomes[-1].reason or "size" in report.outcomes[-1].reason
    assert lab.read() == []


def test_moved_group_offsets_are_refused_and_both_positions_said(make_lab: MakeLab) -> None:
    """F20."""
    lab = make_lab(partitions=1)
    lab.fill(100)
    lab.run(max_records=60)
    move_group_offset(lab, 10)
    report = lab.run()
    assert not report.complete
    assert report.outcomes[-1].outcome == "refused"
    assert "the ledger says 60, the group offset says 10" in report.outcomes[-1].reason
    assert "offsets_match_ledger" in lab.broken()
    lab.assert_squares(range(60))


def move_group_offset(lab: Lab, offset: int) -> None:
    moved = ConsumerGroupTopicPartitions(lab.pipeline.names().group, [TopicPartition(lab.source, 0, offset)])
    for future in lab.connection.admin.alter_consumer_group_offsets([moved]).values():
        future.result()


def test_group_offsets_moved_while_a_transaction_is_open_double_nothing(make_lab: MakeLab, tmp_path: Path) -> None:
    """F20: the admin call wins over the offset in the transaction, and the ledger over both."""
    lab = make_lab(partitions=1)
    lab.fill(100)
    run = Background(lab, Failures(failpoint="before_commit", action="stop", pid_folder=str(tmp_path)))
    pid = stopped(tmp_path)
    move_group_offset(lab, 10)
    os.kill(pid, signal.SIGCONT)
    report = run.result()
    assert not report.complete
    assert report.outcomes[-1].outcome == "refused"
    assert "the ledger says 100, the group offset says 10" in report.outcomes[-1].reason
    lab.assert_squares(range(100))
    assert lab.broken() == {"offsets_match_ledger"}
    move_group_offset(lab, 100)  # the remedy that was said
    lab.fill(50)
    assert lab.run().complete
    lab.assert_squares(range(150))
    assert lab.broken() == set()


def test_a_consumer_in_the_group_is_refused_and_named(lab: Lab) -> None:
    """F20."""
    lab.fill(30)
    intruder = Consumer(lab.connection.config(group_id=lab.pipeline.names().group, client_id="intruder"))
    intruder.subscribe([lab.source])
    wait_for(lambda: intruder.poll(0.1) is not None or intruder.assignment())
    try:
        with pytest.raises(EosError, match=r"1 active member\(s\): intruder"):
            lab.run()
    finally:
        intruder.close()
    assert lab.read() == []


def test_the_weaker_modes_double_and_lose_and_the_checks_say_so(lab: Lab) -> None:
    """S6: the same failures in all three modes."""
    lab.fill(300)
    failures = Failures(failpoint="before_commit", action="raise")
    assert lab.run(failures).complete
    lab.assert_squares(range(300))
    for mode in (Mode.AT_LEAST_ONCE, Mode.AT_MOST_ONCE):
        lab.create(mode)
        assert lab.run(failures, mode=mode).complete
    doubled = lab.read(f"{lab.sink}.at_least_once")
    assert len(doubled) > 300
    assert {"no_duplicates", "values_recompute"} <= lab.broken(Mode.AT_LEAST_ONCE)
    lost = lab.read(f"{lab.sink}.at_most_once")
    assert len(lost) < 300
    assert {"none_missing", "values_recompute"} <= lab.broken(Mode.AT_MOST_ONCE)
    lab.assert_squares(range(300))
