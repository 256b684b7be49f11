"""The tables of the results, for the terminal and for the page."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table as RichTable

from benchmarks.contenders import ARROW, ARROW_BASELINE, DATAFRAME, DATAFRAME_BASELINE, DESCRIPTIONS
from benchmarks.results import (
    IncrementResult,
    ScalingPoint,
    Series,
    TransactionResult,
    VisibilityResult,
    WorkloadResult,
)
from benchmarks.spread import Spread, rates, ratios

MILLION = 1_000_000
#: Kind → its contender with and without transactions.
KINDS = {"Arrow": (ARROW, ARROW_BASELINE), "DataFrame": (DATAFRAME, DATAFRAME_BASELINE)}


@dataclass(frozen=True)
class Table:
    """A table of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def rich(self) -> RichTable:
        table = RichTable(*self.columns, title=self.title)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def throughput_table(result: WorkloadResult) -> Table:
    """The fastest contender first."""
    reference = speeds(result.series[ARROW]) if ARROW in result.series else None
    size = result.value_bytes
    columns = ["contender", "records/s", *(["MB/s"] if size else []), "of the Arrow kind"]
    columns += ["CPU s per million", "of the broker", "memory, MB", "Python worker, MB"]
    ordered = sorted(result.series.items(), key=lambda item: -Spread.of(speeds(item[1])).median)
    rows = []
    for name, series in ordered:
        spread = Spread.of(speeds(series))
        row = [DESCRIPTIONS[name].title, spread.text(0)]
        row += [f"{spread.median * size / MILLION:,.0f}"] if size else []
        row.append(Spread.of(ratios(speeds(series), reference)).text() if reference else "")
        row += [per_million(series, series.cpu_seconds), per_million(series, series.broker_cpu_seconds)]
        row += [megabytes(series.memory_bytes), megabytes(series.worker_bytes)]
        rows.append(row)
    return Table(f"{result.title}: {result.records:,} records", columns, rows)


def speeds(series: Series) -> list[float]:
    return rates(series.records, series.seconds)


def per_million(series: Series, seconds: Sequence[float]) -> str:
    return f"{Spread.of(seconds).median * MILLION / series.records:.1f}"


def megabytes(sizes: Sequence[int]) -> str:
    return f"{max(sizes) / MILLION:,.0f}" if max(sizes) else ""


def price_table(workloads: dict[str, WorkloadResult]) -> Table:
    """The speed of exactly once in relation to our own at least once in the same round."""
    prices = [(result.title, [price_of(result, *names) for names in KINDS.values()]) for result in workloads.values()]
    rows = [[title, *figures] for title, figures in prices if any(figures)]
    return Table("Exactly once, relative to at least once", ["workload", *(f"{kind} kind" for kind in KINDS)], rows)


def price_of(result: WorkloadResult, exactly_once: str, at_least_once: str) -> str:
    if not {exactly_once, at_least_once} <= set(result.series):
        return ""
    return Spread.of(ratios(speeds(result.series[exactly_once]), speeds(result.series[at_least_once]))).text()


def scaling_table(points: Sequence[ScalingPoint]) -> Table:
    rows = [
        [f"{point.records:,}", str(point.partitions)]
        + [Spread.of(rates(point.records, point.seconds[name])).text(0) for name in (ARROW, DATAFRAME)]
        + [Spread.of(point.seconds[name]).text() for name in (ARROW, DATAFRAME)]
        for point in points
    ]
    columns = [
        "records",
        "partitions",
        "Arrow kind, records/s",
        "DataFrame kind, records/s",
        "Arrow, s",
        "DataFrame, s",
    ]
    return Table("Records and partitions", columns, rows)


def increment_table(result: IncrementResult) -> Table:
    steps = list(next(iter(result.kinds.values())))
    rows = [
        [f"{kind} kind", *(Spread.of(seconds[step]).text() for step in steps)] for kind, seconds in result.kinds.items()
    ]
    return Table(f"{result.records:,} new records, seconds", ["kind", *steps], rows)


def visibility_table(result: VisibilityResult) -> Table:
    rows = [
        [DESCRIPTIONS[name].title, Spread.of(lag.median).text(), Spread.of(lag.maximum).text()]
        for name, lag in result.lags.items()
    ]
    return Table("Lag of a reader of committed data, seconds", ["contender", "median record", "last record"], rows)


def transactions_table(result: TransactionResult) -> Table:
    rows = [
        [f"{kind} kind", Spread.of([1000 * each for each in seconds]).text(0), f"{result.bytes_per_record[kind]:.3f}"]
        for kind, seconds in result.seconds.items()
    ]
    columns = ["kind", "one more transaction, ms", "ledger and provenance, bytes per record"]
    return Table("Transactions", columns, rows)
