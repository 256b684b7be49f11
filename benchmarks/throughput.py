"""Measures how fast each contender moves the records of the workloads."""

from collections.abc import Mapping, Sequence

from rich.console import Console

from benchmarks.contenders import DESCRIPTIONS
from benchmarks.results import Series, WorkloadResult
from benchmarks.rounds import take_turns
from benchmarks.stage import Measurement, Stage
from benchmarks.tables import throughput_table
from benchmarks.workload import WORKLOADS


def measure_throughput(
    stage: Stage, records: Mapping[str, int], names: Sequence[str], *, warm_ups: int, rounds: int, console: Console
) -> dict[str, WorkloadResult]:
    """Workload → its result.

    Args:
        stage: where to measure.
        records: workload → the records of a run.
        names: the contenders.
        warm_ups: rounds that do not count: JVMs become faster for some time.
        rounds: rounds that count.
        console: shows the progress and the tables.
    """
    available, results = stage.contenders.available(names), {}
    for name, count in records.items():
        workload = WORKLOADS[name]
        counts = {contender: share_of(contender, count) for contender in available}
        for each in sorted(set(counts.values())):
            stage.source(workload, each)

        def run(contender: str, counts: dict[str, int] = counts, name: str = name) -> Measurement:
            return stage.measure(contender, stage.source(WORKLOADS[name], counts[contender]))

        measured = take_turns(name, available, run, warm_ups=warm_ups, rounds=rounds, console=console)
        results[name] = WorkloadResult(
            title=workload.title,
            value_bytes=workload.value_bytes,
            records=count,
            rounds=rounds,
            warm_ups=warm_ups,
            series={each: Series.of(counts[each], measured[each]) for each in available},
        )
        console.print(throughput_table(results[name]).rich())
        stage.drop_sources()
    return results


def share_of(contender: str, records: int) -> int:
    """The records that a contender gets: a slow one fewer."""
    return max(1, round(records * DESCRIPTIONS[contender].share))
