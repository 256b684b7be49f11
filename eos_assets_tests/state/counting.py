"""Records for the sliding count, what it must write, and what its pipeline has written."""

from collections.abc import Iterator

import pyarrow as pa
from confluent_kafka import Producer

from eos_assets.kafka.partitioner import partitions_of
from eos_assets.log.ledger import LedgerEntry, load
from eos_assets.run.plan import make_plan
from eos_assets.state.snapshot import Snapshot
from eos_assets.state.state import State
from eos_assets_tests.run.lab import Lab
from eos_assets_tests.state.folds import Counts

KEYS = [b"a", b"b", b"c", b"d", b"e", b"f"]


def home(key: bytes, partitions: int = 2) -> int:
    return int(partitions_of(pa.array([key], pa.binary()), partitions)[0])


def send(lab: Lab, records: Iterator[tuple[bytes, bytes]] | list[tuple[bytes, bytes]]) -> None:
    producer = Producer(lab.connection.config(partitioner="murmur2_random"))
    for key, value in records:
        producer.produce(lab.source, value, key)
    producer.flush()


def make_records(count: int, seed: int = 0) -> list[tuple[bytes, bytes]]:
    return [(KEYS[(n * n + seed) % len(KEYS)], b"%d.%d" % (seed, n)) for n in range(count)]


def expected(lab: Lab) -> dict[int, list[tuple[bytes, bytes]]]:
    """What the sink must hold of each source partition, counted in plain Python."""
    counts = {p: Counts() for p in lab.connection.partitions(lab.source)}
    outputs: dict[int, list[tuple[bytes, bytes]]] = {p: [] for p in counts}
    for m in lab.read(lab.source):
        key, partition = m.key() or b"", m.partition() or 0
        outputs[partition].append((key, counts[partition].count(key, m.value() or b"", m.offset() or 0)))
    return outputs


def assert_counted(lab: Lab) -> None:
    wanted = sorted(row for rows in expected(lab).values() for row in rows)
    assert sorted((m.key() or b"", m.value() or b"") for m in lab.read()) == wanted


def entries(lab: Lab) -> list[LedgerEntry]:
    rows = [load(m.value() or b"") for m in lab.read(lab.pipeline.names().ledger)]
    return [row for row in rows if isinstance(row, LedgerEntry)]


def load_state(lab: Lab, snapshot: Snapshot | None = None) -> list[list[str]]:
    """The rows of each store, as text."""
    tails = {p.partition: p.tail for p in make_plan(lab.pipeline, lab.connection)}
    state = State(lab.context, snapshot)
    return [sorted(map(str, frame.collect())) for frame in state.load(tails)]
