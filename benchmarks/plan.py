"""What one benchmark measures, and how often."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.contenders import DESCRIPTIONS
from benchmarks.scaling import POINTS
from benchmarks.workload import WORKLOADS

SECTIONS = ("throughput", "price", "visibility", "scaling", "increment", "transactions")


@dataclass(frozen=True)
class Plan:
    """The defaults take about half an hour on two cores."""

    sections: tuple[str, ...]
    contenders: tuple[str, ...]
    #: Workload → the records of a run.
    records: dict[str, int]
    warm_ups: int = 3
    rounds: int = 5
    #: The rounds of visibility, scaling and transactions.
    few_rounds: int = 3
    increment_records: int = 1000
    increment_rounds: int = 7
    visibility_records: int = 1_000_000
    transaction_records: tuple[int, int] = (30_000, 1_000_000)
    scaling: tuple[tuple[int, int], ...] = POINTS
    #: Whether every contender takes part, so that the page may show the results.
    complete: bool = True

    def limited_to(self, records: int) -> "Plan":
        """Runs of this number of records. Where a section compares sizes, none is larger."""
        few, many = self.transaction_records
        return replace(
            self,
            records=dict.fromkeys(self.records, records),
            visibility_records=records,
            scaling=tuple(dict.fromkeys((min(records, count), partitions) for count, partitions in self.scaling)),
            transaction_records=(min(few, records), min(many, records)),
        )

    def repeated(self, rounds: int) -> "Plan":
        """Every section has this number of rounds."""
        return replace(self, rounds=rounds, few_rounds=rounds, increment_rounds=rounds)


QUICK_RECORDS = 1_000_000
#: One workload, in about three minutes.
QUICK = replace(
    Plan(("throughput",), tuple(DESCRIPTIONS), {"integers": QUICK_RECORDS}),
    warm_ups=1,
    rounds=3,
    complete=False,
)


def plan_of(
    *,
    sections: Sequence[str] = (),
    workloads: Sequence[str] = (),
    contenders: Sequence[str] = (),
    records: int | None = None,
    rounds: int | None = None,
    warm_ups: int | None = None,
    quick: bool = False,
) -> Plan:
    """The plan that the options of the command line choose; what they leave out is by default."""
    everything = Plan(SECTIONS, tuple(DESCRIPTIONS), {name: each.records for name, each in WORKLOADS.items()})
    plan = QUICK if quick else everything
    counts = dict.fromkeys(WORKLOADS, QUICK_RECORDS) if quick else everything.records
    if sections:  # the price comes from the rounds of the throughput, in which without it only ours take part
        complete = plan.complete and not ("price" in sections and "throughput" not in sections)
        plan = replace(plan, sections=tuple(sections), complete=complete)
    if workloads:
        plan = replace(plan, records={name: counts[name] for name in workloads})
    if contenders:
        plan = replace(plan, contenders=tuple(contenders), complete=False)
    if records:
        plan = plan.limited_to(records)
    if rounds:
        plan = plan.repeated(rounds)
    return plan if warm_ups is None else replace(plan, warm_ups=warm_ups)
