"""Positions and offsets in, the ranges that a run would write out. Reads only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from confluent_kafka.admin import TopicMetadata

from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, bounds
from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.log.ranges import OffsetRange
from eos_assets.log.reader import CommittedReader


@dataclass(frozen=True)
class PartitionPlan:
    """How one source partition stands, and what a run would do about it."""

    partition: int
    position: int
    log_start: int
    stable_end: int
    high_watermark: int
    tail: Genesis | LedgerEntry | None
    genesis: Genesis | None
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.stable_end - self.position)

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(self.partition, self.position, self.end)

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
    """One row per source partition. The end is the last stable offset, never the high watermark: behind it somebody's
    transaction is open, and what is skipped now would never be read. `upto` may end a partition earlier."""
    topic, ledger = pipeline.source.name, pipeline.names(mode).ledger
    existing = existing_topics(pipeline, connection, (topic, ledger), mode)
    known = sorted(existing[topic].partitions)
    chosen = known if partitions is None else sorted(set(partitions))
    for partition in chosen:
        if partition not in known:
            raise EosError(f"{topic} has no partition {partition}.", f"Its partitions are 0 to {known[-1]}.")
    found = bounds(connection, topic, chosen)
    begun = set(existing[ledger].partitions)  # the next run makes it grow with the source
    reader = CommittedReader(connection.config(), pipeline.names(mode))
    try:
        plans = [
            partition_plan(pipeline, reader if p in begun else None, p, found[p], mode, max_records) for p in chosen
        ]
    finally:
        reader.close()
    return [replace(plan, end=bounded(plan, upto[plan.partition])) for plan in plans] if upto is not None else plans


def existing_topics(
    pipeline: Pipeline, connection: Connection, needed: Iterable[str], mode: Mode = Mode.EXACTLY_ONCE
) -> dict[str, TopicMetadata]:
    """The topics of the cluster; refused, with the command that creates them, if some that are needed are missing."""
    existing = connection.metadata().topics
    if missing := [name for name in needed if name not in existing]:
        raise without_topics(pipeline, missing, mode, connection)
    return existing


def without_topics(pipeline: Pipeline, missing: list[str], mode: Mode, connection: Connection) -> EosError:
    secured = connection.security.protocol != "PLAINTEXT"
    hidden = f", or that {connection.security.principal} may not see" if secured else ""
    command = f"eos topics create --pipeline {pipeline.name}"
    module = getattr(pipeline.transform, "__module__", "__main__")
    if not module.startswith("eos_assets.") and module != "__main__":
        command += f" --module {module}"
    if mode is not Mode.EXACTLY_ONCE:
        command += f" --mode {mode}"
    return EosError(
        f"Pipeline {pipeline.name} needs topics that do not exist{hidden}: {', '.join(missing)}.",
        f"Create them with `{command}`.",
    )


def bounded(plan: PartitionPlan, limit: int) -> int:
    return min(plan.end, max(plan.position, limit))


def partition_plan(
    pipeline: Pipeline,
    reader: CommittedReader | None,
    partition: int,
    found: Bounds,
    mode: Mode,
    max_records: int | None,
) -> PartitionPlan:
    """The ledger alone gives the position. The group offset is compared in the task, after `init_transactions`: until
    then an older attempt may hold it open."""
    tail = reader.ledger_tail(partition) if reader else None
    if mode is Mode.EXACTLY_ONCE:
        position = found.start if tail is None else tail.next if isinstance(tail, LedgerEntry) else tail.start
    else:
        group = reader.group_offset(partition) if reader else None
        position = found.start if group is None else group
    end = end_of(pipeline, partition, position, found, max_records)
    genesis = reader.genesis(partition) if reader and tail is not None and mode is Mode.EXACTLY_ONCE else None
    return PartitionPlan(partition, position, found.start, found.stable, found.high, tail, genesis, end)


def lost(pipeline: Pipeline, partition: int, start: int, end: int) -> str:
    where = f"{pipeline.source.name}/{partition}"
    return f"{where}: the offsets {start} to {end - 1} were deleted before they were read: they are lost."


def end_of(pipeline: Pipeline, partition: int, position: int, found: Bounds, max_records: int | None) -> int:
    """Where a run ends that begins at this position; refused if the source no longer, or not yet, has it."""
    if position < found.start:
        raise EosError(
            lost(pipeline, partition, position, found.start),
            f"If that is accepted, declare the next generation ({pipeline.generation + 1}) with a new sink or "
            f"shared_sink=True: it begins at {found.start}. Nothing was written.",
        )
    if position > found.stable:
        raise EosError(
            f"{pipeline.source.name}/{partition} ends at {found.stable}, but {position} is committed.",
            "The topic is not the one that was read before; check its name and its topic id.",
        )
    return found.stable if max_records is None else min(found.stable, position + max_records)
