"""Reads one partition again and again through a proxy that damages the responses of the broker.

`python -m eos_assets_tests.kafka.hostile_reads SERVERS TOPIC END SEEDS` prints the outcome of each read: `exact`,
`other` if offsets or the list of aborted transactions were damaged, which no checksum covers, or the class of the
error. A record whose content has changed ends the command with an error.
"""

import json
import random
import sys
from functools import partial
from typing import Any

from confluent_kafka import KafkaException

from eos_assets.errors import EosError
from eos_assets.kafka import range_reader
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.range_reader import PartitionRange, read_batches
from eos_assets_tests.kafka.proxy import Api, Proxy

#: The beginning of a response that is left as it is: the client closes the connection if the id is another.
CORRELATION = 4


def damage(seed: int, key: int, frame: bytes) -> bytes:
    """Flip bits, repeat, cut or insert bytes of a fetch response; another one each time, the same for each seed."""
    source = random.Random(f"{seed} {len(frame)}")
    if key != Api.FETCH or len(frame) < 100 or source.random() < 0.3:
        return frame
    damaged = bytearray(frame)
    for _ in range(source.randint(1, 8)):
        at = source.randrange(CORRELATION, len(damaged))
        kind = source.randrange(4)
        if kind == 0:
            damaged[at] ^= 1 << source.randrange(8)
        elif kind == 1:
            damaged[at] = source.choice((0, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            size = source.randrange(1, 16)
            damaged[at : at + size] = source.randbytes(size)
        elif len(damaged) > at + 8:
            damaged[at : at + 4] = source.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"))
    return bytes(damaged)


def read(servers: str, topic: str, end: int, isolation: str = "read_committed") -> list[dict[str, Any]]:
    wanted = PartitionRange(topic, 0, 0, end)
    batches = read_batches(Connection(servers).config(), wanted, ("timestamp", "headers"), isolation=isolation)
    return [row for batch in batches for row in batch.to_pylist()]


def content(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["key"], row["value"], row["timestamp"], row["headers"]


def main(servers: str, topic: str, end: int, seeds: int) -> None:
    range_reader.TIMEOUT_SECONDS = 1  # type: ignore[attr-defined]
    expected, outcomes = read(servers, topic, end), []
    contents = [content(row) for row in read(servers, topic, end, "read_uncommitted")]
    for seed in range(seeds):
        with Proxy(servers, change=partial(damage, seed)) as proxy:
            try:
                rows = read(proxy.address, topic, end)
                assert all(content(row) in contents for row in rows), f"seed {seed} changed a record"
                outcomes.append("exact" if rows == expected else "other")
            except (KafkaException, EosError) as error:
                outcomes.append(type(error).__name__)
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
