"""Every metric: its name, what it is derived from, and its samples."""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from eos_assets.metrics.reader import PartitionState, PipelineState
from eos_assets.metrics.totals import BUCKET_SECONDS

PIPELINE = ("pipeline",)
PARTITION = ("pipeline", "partition")
#: A metric of a source partition: its name, its help text, and its value; None where there is none.
PartitionMetric = tuple[str, str, Callable[[PartitionState], float | None]]

GAUGES: tuple[PartitionMetric, ...] = (
    ("eos_position_offset", "The next source offset to process, by the ledger.", lambda s: s.position),
    (
        "eos_source_stable_offset",
        "The last stable offset of the source: every transaction below it has ended.",
        lambda s: s.bounds.stable,
    ),
    ("eos_lag_offsets", "The last stable offset of the source minus the position.", lambda s: s.lag),
    (
        "eos_lagging_seconds",
        "For how long the exporter has seen the partition lag at the same position; 0 if it does not lag. It starts "
        "again at 0 with the exporter.",
        lambda s: s.lagging_seconds,
    ),
    (
        "eos_last_commit_timestamp_seconds",
        "When the last committed transaction was written, by its ledger entry. Absent before the first one.",
        lambda s: s.totals.last.ended_ms / 1000 if s.totals.last else None,
    ),
)
COUNTERS: tuple[PartitionMetric, ...] = (
    ("eos_commits", "Committed transactions of runs: entries of the ledger.", lambda s: s.totals.commits),
    ("eos_repairs", "Committed repairs, by the ledger.", lambda s: s.totals.repairs),
    ("eos_records_in", "Source records of committed transactions, by the ledger.", lambda s: s.totals.records_in),
    (
        "eos_records_out",
        "Outputs of committed transactions and repairs, by the ledger.",
        lambda s: s.totals.records_out,
    ),
    ("eos_out_bytes", "Bytes of the outputs of committed transactions, by the ledger.", lambda s: s.totals.bytes_out),
    ("eos_skipped_records", "Source records that the transform skipped, by the ledger.", lambda s: s.totals.skipped),
    (
        "eos_repeated_records",
        "Skipped source records whose business key came before, by the ledger.",
        lambda s: s.totals.repeats,
    ),
    ("eos_dead_letters", "Dead letters of committed transactions, by the ledger.", lambda s: s.totals.dead),
    (
        "eos_task_retries",
        "Failed tries of Spark tasks that a commit of the same job followed: task_attempt in the ledger. Their "
        "transactions were aborted or fenced. Tries that no commit followed leave no trace in the cluster.",
        lambda s: s.totals.task_retries,
    ),
)
#: The run attempts of a stateful pipeline are its transactions, so they do not show failures.
JOB_RETRIES: PartitionMetric = (
    "eos_job_retries",
    "Failed Spark jobs that a commit of the same run followed: run_attempt in the ledger. Another partition may have "
    "been the cause. Not for stateful pipelines, which run one job for each transaction.",
    lambda s: s.totals.job_retries,
)


def up(value: bool) -> Metric:
    text = "1 if the brokers answered this scrape in time, 0 if they did not; then there is no other metric."
    return GaugeMetricFamily("eos_up", text, float(value))


def families(states: Iterable[PipelineState]) -> Iterator[Metric]:
    """The metrics of these pipelines. A pipeline that cannot be read has only the one that says so."""
    states = list(states)
    yield per_pipeline(
        "eos_pipeline_up",
        "1 if the topics of the pipeline exist and its ledger could be read, 0 if not.",
        ((state, float(not state.problem)) for state in states),
    )
    readable = [state for state in states if not state.problem]
    for metric in GAUGES:
        yield per_partition(GaugeMetricFamily, metric, readable)
    for metric in COUNTERS:
        yield per_partition(CounterMetricFamily, metric, readable)
    yield per_partition(CounterMetricFamily, JOB_RETRIES, [s for s in readable if not s.pipeline.stateful])
    yield transaction_seconds(readable)
    yield open_transactions(readable)
    yield dead_letters_by_reason(readable)
    yield fresh_within(readable)
    yield from proofs(readable)


def per_pipeline(name: str, text: str, values: Iterable[tuple[PipelineState, float | None]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=PIPELINE)
    for state, value in values:
        if value is not None:
            family.add_metric([state.pipeline.name], value)
    return family


def per_partition(
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily], metric: PartitionMetric, states: Iterable[PipelineState]
) -> Metric:
    name, text, value_of = metric
    family = kind(name, text, labels=PARTITION)
    for state in states:
        for partition, one in state.partitions.items():
            if (value := value_of(one)) is not None:
                family.add_metric([state.pipeline.name, str(partition)], value)
    return family


def transaction_seconds(states: Iterable[PipelineState]) -> Metric:
    family = HistogramMetricFamily(
        "eos_transaction_seconds",
        "Time from the beginning of a committed transaction to its ledger entry, right before the commit, by the "
        "ledger. What the commit itself takes is not in the ledger.",
        labels=PARTITION,
    )
    bounds = [*map(str, BUCKET_SECONDS), "+Inf"]
    for state in states:
        for partition, one in state.partitions.items():
            cumulative = accumulate(one.totals.buckets)
            family.add_metric(
                [state.pipeline.name, str(partition)], list(zip(bounds, cumulative, strict=True)), one.totals.seconds
            )
    return family


def open_transactions(states: Iterable[PipelineState]) -> Metric:
    family = GaugeMetricFamily(
        "eos_open_transaction_seconds",
        "For how long the exporter has seen the oldest open transaction of a topic's partition, any producer's; 0 if "
        "none is open. Readers of committed data wait for its end. It starts again at 0 with the exporter.",
        labels=("pipeline", "topic", "partition"),
    )
    for state in states:
        for (topic, partition), seconds in state.open_seconds.items():
            family.add_metric([state.pipeline.name, topic, str(partition)], seconds)
    return family


def dead_letters_by_reason(states: Iterable[PipelineState]) -> Metric:
    family = GaugeMetricFamily(
        "eos_dead_letters_by_reason",
        "Dead letters by the code of their reason: the header eos.code of those that the topic held when the exporter "
        "started, and of all since.",
        labels=("pipeline", "reason"),
    )
    for state in states:
        for reason, count in sorted(state.reasons.items()):
            family.add_metric([state.pipeline.name, reason], count)
    return family


def fresh_within(states: Iterable[PipelineState]) -> Metric:
    return per_pipeline(
        "eos_fresh_within_seconds",
        "The declared fresh_within: a partition that lags for longer is late. Absent if none is declared.",
        ((s, s.pipeline.freshness.total_seconds() if s.pipeline.freshness else None) for s in states),
    )


def proofs(states: list[PipelineState]) -> Iterator[Metric]:
    yield per_pipeline(
        "eos_proof_timestamp_seconds",
        "When the invariants were last evaluated, by the offsets of the group eos/<pipeline>/last-proof. 0 before "
        "the first proof.",
        ((state, state.proof.evaluated_at or 0) for state in states),
    )
    yield per_pipeline(
        "eos_proof_held_timestamp_seconds",
        "When a proof last held; 0 if none ever did.",
        ((state, state.proof.held_at or 0) for state in states),
    )
    yield per_pipeline(
        "eos_proof_holds",
        "1 if the last proof held, 0 if it failed. Absent before the first proof.",
        ((state, None if state.proof.evaluated_at is None else float(state.proof.holds)) for state in states),
    )
    family = GaugeMetricFamily(
        "eos_invariant_violated",
        "1 for each invariant that did not hold in the last proof. A declared check is none of them.",
        labels=("pipeline", "invariant"),
    )
    for state in states:
        for invariant in state.proof.violated:
            family.add_metric([state.pipeline.name, invariant], 1)
    yield family
