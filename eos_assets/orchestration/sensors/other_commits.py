"""The sensor that reports what was committed outside Dagster, such as by `eos run`, as materializations."""

import json
from collections.abc import Iterable, Iterator

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import stable_ends
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import ledger
from eos_assets.log.ledger import LedgerEntry
from eos_assets.orchestration.keys import dead_letters_key, topic_key
from eos_assets.orchestration.ledger_metadata import ledger_metadata
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.sensors.runs import connect, default_status, missing_topics
from eos_assets.run.report import LocatedEntry

INTERVAL_SECONDS = 5
#: The entries of each ledger partition that one tick reads at most.
ENTRIES_PER_TICK = 100
#: The first tick begins this number of offsets before the end, and reports only the last entry of each partition.
FIRST_OFFSETS = 10

#: Ledger partition → the next offset to read.
Positions = dict[int, int]


def other_commits(pipeline: Pipeline) -> dg.SensorDefinition:
    """Report the ledger entries whose run is not a run of this Dagster instance."""

    @dg.sensor(
        name=f"{pipeline.name}_other_commits",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=default_status(),
        description=f"Reports what was committed to {pipeline.name} outside Dagster; requests no run.",
    )
    def sensor(context: dg.SensorEvaluationContext, kafka: KafkaResource) -> dg.SensorResult | dg.SkipReason:
        connection = connect(kafka)
        if missing := missing_topics(pipeline, connection):
            return dg.SkipReason(missing)
        before = load_positions(context.cursor)
        entries, after = read_new_entries(pipeline, connection, before)
        others = {run for run in {entry.run for _, entry in entries} if not context.instance.has_run(run)}
        if not others:
            return dg.SensorResult(skip_reason="Nothing was committed outside Dagster.", cursor=json.dumps(after))
        reported = materializations(pipeline, (located for located in entries if located[1].run in others))
        return dg.SensorResult(asset_events=list(reported), cursor=json.dumps(after))

    return sensor


def load_positions(cursor: str | None) -> Positions:
    return {int(partition): offset for partition, offset in json.loads(cursor or "{}").items()}


def read_new_entries(
    pipeline: Pipeline, connection: Connection, positions: Positions
) -> tuple[list[LocatedEntry], Positions]:
    """The entries after these positions, and the positions after them. For a partition without a position, which is new
    to the sensor, only the last entry."""
    topic = pipeline.names().ledger
    ends = stable_ends(connection, topic, connection.partitions(topic))
    starts = {(topic, p): positions.get(p, max(0, end - FIRST_OFFSETS)) for p, end in ends.items()}
    unread = {place: start for place, start in starts.items() if start < ends[place[1]]}
    read: dict[int, list[LocatedEntry]] = {p: [] for p in ends}
    after = dict(ends)
    counts = dict.fromkeys(ends, 0)
    upto = {place: ends[place[1]] for place in unread}
    for message in read_partitions(connection, unread, upto, limit=ENTRIES_PER_TICK):
        partition, offset, row = message.partition() or 0, message.offset() or 0, ledger.read(message)
        counts[partition] += 1
        if counts[partition] == ENTRIES_PER_TICK:
            after[partition] = offset + 1
        if isinstance(row, LedgerEntry):
            read[partition].append((offset, row))
    return [located for p, entries in read.items() for located in (entries if p in positions else entries[-1:])], after


def materializations(pipeline: Pipeline, entries: Iterable[LocatedEntry]) -> Iterator[dg.AssetMaterialization]:
    """One materialization of each topic for each run and source partition."""
    by_run: dict[tuple[str, int], list[LocatedEntry]] = {}
    for offset, entry in entries:
        by_run.setdefault((entry.run, entry.partition), []).append((offset, entry))
    keys = written_assets(pipeline)
    for (_, partition), located in by_run.items():
        rows = [entry for _, entry in located]
        for topic, key in keys.items():
            metadata = {
                **ledger_metadata(pipeline, topic, partition, rows),
                "attempts": max(entry.run_attempt for entry in rows),
                "ledger": f"{pipeline.names().ledger}/{partition}, offset {located[-1][0]}",
            }
            yield dg.AssetMaterialization(key, partition=str(partition), metadata=metadata)


def written_assets(pipeline: Pipeline) -> dict[str, dg.AssetKey]:
    """Topic → the asset that a transaction of the pipeline writes."""
    names = pipeline.names()
    return {
        **{sink.name: topic_key(pipeline, sink.name) for sink in pipeline.sinks},
        names.dead_letters: dead_letters_key(pipeline),
        names.ledger: dg.AssetKey(names.ledger),
        names.provenance: dg.AssetKey(names.provenance),
    }
