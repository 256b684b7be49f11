"""Results with round figures."""

from benchmarks.contenders import ARROW, ARROW_BASELINE, DATAFRAME, FLINK, SPARK, STREAMS
from benchmarks.machine import Machine
from benchmarks.results import (
    IncrementResult,
    Lag,
    Results,
    ScalingPoint,
    Series,
    TransactionResult,
    VisibilityResult,
    WorkloadResult,
)

MACHINE = Machine(
    processor="A processor",
    cores=2,
    memory_bytes=8 << 30,
    system="Linux 6",
    versions={"Apache Kafka (broker)": "4.3.1"},
)


def series(*seconds: float, records: int = 1_000_000) -> Series:
    """Runs with these times, and half as much CPU time again."""
    return Series(
        records=records,
        seconds=list(seconds),
        cpu_seconds=[1.5 * each for each in seconds],
        broker_cpu_seconds=[0.5 * each for each in seconds],
        memory_bytes=[100_000_000] * len(seconds),
        worker_bytes=[0] * len(seconds),
    )


def workload_result(**more: Series) -> WorkloadResult:
    """The Arrow kind in 1, 2 and 4 seconds, and others."""
    return WorkloadResult(
        title="Short integers, squared",
        value_bytes=None,
        records=1_000_000,
        rounds=3,
        warm_ups=1,
        series={ARROW: series(1, 2, 4), **more},
    )


def whole_results() -> Results:
    everyone = {name: series(2, 4, 8) for name in (DATAFRAME, ARROW_BASELINE, SPARK, FLINK, STREAMS)}
    return Results(
        date="2026-01-02",
        machine=MACHINE,
        throughput={"integers": workload_result(**everyone)},
        scaling=[ScalingPoint(records=1000, partitions=3, seconds={ARROW: [0.5], DATAFRAME: [1.0]})],
        increment=IncrementResult(records=1000, kinds={"Arrow": {"run": [0.25], "proof": [0.5]}}),
        visibility=VisibilityResult(records=1000, lags={FLINK: Lag(median=[0.5], maximum=[1.25])}),
        transactions=TransactionResult(seconds={"Arrow": [0.055]}, records=1000, bytes_per_record={"Arrow": 0.01}),
    )
