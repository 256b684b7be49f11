"""The results of the benchmarks, as they are kept in `results/*.json`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, Field

from benchmarks.machine import Machine
from benchmarks.stage import Measurement

FOLDER = Path(__file__).parent / "results"
LATEST = FOLDER / "latest.json"


class Series(BaseModel):
    """The runs of one contender, a figure for each round."""

    records: int
    seconds: list[float]
    cpu_seconds: list[float]
    broker_cpu_seconds: list[float]
    memory_bytes: list[int]
    worker_bytes: list[int]

    @classmethod
    def of(cls, records: int, measurements: Sequence[Measurement]) -> "Series":
        return cls(
            records=records,
            seconds=[round(each.seconds, 4) for each in measurements],
            cpu_seconds=[round(each.usage.cpu_seconds, 2) for each in measurements],
            broker_cpu_seconds=[round(each.usage.broker_cpu_seconds, 2) for each in measurements],
            memory_bytes=[each.usage.memory_bytes for each in measurements],
            worker_bytes=[each.usage.worker_bytes for each in measurements],
        )


class WorkloadResult(BaseModel):
    """All contenders over one workload."""

    title: str
    value_bytes: int | None
    records: int
    rounds: int
    warm_ups: int
    #: Contender → its runs.
    series: dict[str, Series]


class ScalingPoint(BaseModel):
    """Both kinds over a number of records and partitions."""

    records: int
    partitions: int
    #: Contender → seconds of each round.
    seconds: dict[str, list[float]]


class IncrementResult(BaseModel):
    """The steps after new records."""

    records: int
    #: Kind of pipeline → step → seconds of each round.
    kinds: dict[str, dict[str, list[float]]]


class Lag(BaseModel):
    """How long after a reader of uncommitted data one of committed data sees a record, of each round."""

    median: list[float]
    maximum: list[float]


class VisibilityResult(BaseModel):
    records: int
    #: Contender → its lag in seconds.
    lags: dict[str, Lag]


class TransactionResult(BaseModel):
    """What exactly once costs in addition to the outputs."""

    #: Kind of pipeline → the seconds that one more transaction of a partition takes, of each round.
    seconds: dict[str, list[float]]
    #: The records of which ledger and provenance were measured, and the bytes for each of them.
    records: int
    bytes_per_record: dict[str, float]


class Results(BaseModel):
    """One benchmark. A section that was not measured is empty."""

    date: str = Field(default_factory=lambda: datetime.now(UTC).date().isoformat())
    machine: Machine = Field(default_factory=Machine.this_one)
    #: Contender → why it did not take part.
    left_out: dict[str, str] = {}
    throughput: dict[str, WorkloadResult] = {}
    scaling: list[ScalingPoint] = []
    increment: IncrementResult | None = None
    visibility: VisibilityResult | None = None
    transactions: TransactionResult | None = None

    def write(self) -> None:
        """Keep the results under their date and as the latest. Sections and workloads of the latest that were not
        measured again stay."""
        merged = self.merged_with(Results.load()) if LATEST.exists() else self
        FOLDER.mkdir(exist_ok=True)
        for path in (FOLDER / f"{self.date}.json", LATEST):
            path.write_text(merged.model_dump_json(indent=1) + "\n")

    def merged_with(self, earlier: "Results") -> "Results":
        kept = {name: getattr(earlier, name) for name in type(self).model_fields if not getattr(self, name)}
        workloads = {**earlier.throughput, **self.throughput}
        return self.model_copy(update={**kept, "throughput": workloads, "left_out": self.left_out})

    @staticmethod
    def load(path: Path = LATEST) -> "Results":
        return Results.model_validate_json(path.read_text())
