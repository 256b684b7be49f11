"""Plans what a run writes: the range of each source partition, from its position to the last stable offset."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from eos_assets.context import PipelineContext
from eos_assets.declare.generation import next_generation
from eos_assets.declare.modes import Mode
from eos_assets.declare.names import Names
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, OffsetRange, bounds
from eos_assets.kafka.open_transactions import describe_open_transactions
from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.log.reader import CommittedReader
from eos_assets.run.preflight.topics import existing_topics


@dataclass(frozen=True)
class PartitionPlan:
    """The position and the offsets of one source partition, and the range that a run would write."""

    partition: int
    #: The next offset to write.
    position: int
    log_start: int
    stable_end: int
    high_watermark: int
    #: The last entry and the first entry of the ledger; None if it has none.
    tail: Genesis | LedgerEntry | None
    genesis: Genesis | None
    #: Where the run ends.
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.stable_end - self.position)

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(self.partition, self.position, self.end)

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.log_start, self.stable_end, self.high_watermark)

    def transactions(self, records: int) -> int:
        """About how many transactions of this many records the range takes."""
        return -(-self.range.size // records)


def make_plan(
    pipeline: Pipeline,
    connection: Connection,
    *,
    mode: Mode = Mode.EXACTLY_ONCE,
    partitions: Iterable[int] | None = None,
    max_records: int | None = None,
    upto: Mapping[int, int] | None = None,
) -> list[PartitionPlan]:
    """Plan each source partition. Nothing is written.

    The end is the last stable offset, never the high watermark: after it a transaction of another producer is open, and
    its records would be skipped for good. `upto` may end a partition earlier.
    """
    names = pipeline.names(mode)
    existing = existing_topics(pipeline, connection, (names.source, names.ledger), mode)
    known = sorted(existing[names.source].partitions)
    chosen = known if partitions is None else sorted(set(partitions))
    for partition in chosen:
        if partition not in known:
            raise EosError(
                f"{names.source} has no partition {partition}.", f"Choose among its partitions, 0 to {known[-1]}."
            )
    offsets = bounds(connection, names.source, chosen)
    in_ledger = set(existing[names.ledger].partitions)  # a run lets it grow with the source
    reader = CommittedReader(connection.config(), names)
    try:
        plans = [
            plan_partition(pipeline, names, reader if p in in_ledger else None, p, offsets[p], max_records)
            for p in chosen
        ]
    finally:
        reader.close()
    if upto is None:
        return plans
    return [replace(plan, end=min(plan.end, max(plan.position, upto[plan.partition]))) for plan in plans]


def describe_held_back(pipeline: Pipeline, connection: Connection, plans: Iterable[PartitionPlan]) -> dict[int, str]:
    """Source partition → which open transactions of other producers hold it back, for those that are."""
    bounds_of_source = {(pipeline.source.name, plan.partition): plan.bounds for plan in plans}
    described = describe_open_transactions(connection, bounds_of_source)
    return {partition: text for (_, partition), text in described.items()}


def plan_partition(
    pipeline: Pipeline,
    names: Names,
    reader: CommittedReader | None,
    partition: int,
    offsets: Bounds,
    max_records: int | None,
) -> PartitionPlan:
    """Plan one partition. The ledger alone gives its position. The group offset is compared in the task, after
    `init_transactions`: until then the transaction of an older attempt may cover it."""
    exactly_once = names.mode is Mode.EXACTLY_ONCE
    tail = reader.ledger_tail(partition) if reader else None
    if exactly_once:
        position = offsets.start if tail is None else tail.next if isinstance(tail, LedgerEntry) else tail.start
    else:
        group_offset = reader.group_offset(partition) if reader else None
        position = offsets.start if group_offset is None else group_offset
    end = end_of(pipeline, partition, position, offsets, max_records)
    genesis = reader.genesis(partition) if reader and tail is not None and exactly_once else None
    return PartitionPlan(partition, position, offsets.start, offsets.stable, offsets.high, tail, genesis, end)


def end_of(pipeline: Pipeline, partition: int, position: int, offsets: Bounds, max_records: int | None) -> int:
    """The end of a run that starts at this position. Refuses a position that the source no longer has, or never had."""
    if position < offsets.start:
        raise EosError(
            f"{describe_lost_records(pipeline, partition, position, offsets.start)} Nothing was written.",
            f"If that is acceptable, {next_generation(pipeline)}: it begins at offset {offsets.start}.",
        )
    if position > offsets.stable:
        raise EosError(
            f"{pipeline.source.name}/{partition} ends at {offsets.stable}, but {position} is committed: it is not the "
            "topic that was read before.",
            "Check the name of the source and its topic id.",
        )
    return offsets.stable if max_records is None else min(offsets.stable, position + max_records)


def describe_lost_records(pipeline: Pipeline, partition: int, start: int, end: int) -> str:
    place = f"{pipeline.source.name}/{partition}"
    return f"{place}: the offsets {start} to {end - 1} were deleted before they were read: they are lost."


class Planner:
    """Makes the plans of one run: one before each attempt, all with the same limits."""

    def __init__(
        self,
        context: PipelineContext,
        partitions: Iterable[int] | None,
        max_records: int | None,
        upto: Mapping[int, int] | None,
    ) -> None:
        self.context = context
        self.partitions = None if partitions is None else list(partitions)
        self.max_records = max_records
        self.upto = upto
        #: Source partition → the position of the first plan.
        self._first_positions: dict[int, int] = {}

    def plan(self) -> list[PartitionPlan]:
        """Plan again. Refuses to go on where source records were deleted since the first plan: a position moves only by
        a commit, and the ledger shows that."""
        context = self.context
        plans = make_plan(
            context.pipeline,
            context.kafka,
            mode=context.mode,
            partitions=self.partitions,
            max_records=self.max_records,
            upto=self.upto,
        )
        for plan in plans:
            first = self._first_positions.setdefault(plan.partition, plan.position)
            if plan.position > first and plan.tail is None and context.exactly_once:
                raise EosError(
                    describe_lost_records(context.pipeline, plan.partition, first, plan.position),
                    f"If that is acceptable, run it again: it begins at offset {plan.position}.",
                )
        return plans
