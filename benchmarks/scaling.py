"""Measures how both kinds of pipelines scale with the number of records and of partitions."""

from collections.abc import Sequence

from rich.console import Console

from benchmarks.contenders import ARROW, DATAFRAME
from benchmarks.results import ScalingPoint
from benchmarks.rounds import take_turns
from benchmarks.stage import Measurement, Stage
from benchmarks.tables import scaling_table
from benchmarks.workload import INTEGERS

KINDS = (ARROW, DATAFRAME)
#: Records and partitions.
POINTS = (
    (10_000, 3),
    (100_000, 3),
    (1_000_000, 3),
    (10_000_000, 3),
    (1_000_000, 1),
    (1_000_000, 12),
    (1_000_000, 24),
)


def measure_scaling(
    stage: Stage, points: Sequence[tuple[int, int]], *, warm_ups: int, rounds: int, console: Console
) -> list[ScalingPoint]:
    """Measure both kinds at each point. The warm-ups come before the first one."""
    results = []
    for number, (records, partitions) in enumerate(points):

        def run(name: str, records: int = records, partitions: int = partitions) -> Measurement:
            return stage.measure(name, stage.source(INTEGERS, records, partitions))

        stage.source(INTEGERS, records, partitions)
        title = f"{records:,} records, {partitions} partitions"
        before = 0 if number else warm_ups
        measured = take_turns(title, KINDS, run, warm_ups=before, rounds=rounds, console=console)
        seconds = {name: [round(each.seconds, 4) for each in measured[name]] for name in KINDS}
        results.append(ScalingPoint(records=records, partitions=partitions, seconds=seconds))
        stage.drop_sources()
    console.print(scaling_table(results).rich())
    return results
