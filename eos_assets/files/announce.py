"""Files or URLs in, one record on a topic for each of them out."""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection

ACKNOWLEDGED_SECONDS = 60.0


def announcement(place: str, declared: str | None = None, *, checksum: bool = True) -> tuple[str, str]:
    """URL and record value for a path or a URL. The checksum of a local file is computed; a URL is taken as it is."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", place):
        url, digest = place, None
    else:
        path = Path(place).absolute()
        if not path.is_file():
            raise EosError(f"There is no file {place}.", "Give files that exist, or URLs.")
        url, digest = path.as_uri(), digest_of(path) if checksum else None
    more = {"format": declared, "checksum": digest}
    given = {name: value for name, value in more.items() if value}
    return url, json.dumps({"url": url, **given}) if given else url


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def announce(connection: Connection, topic: str, announcements: Iterable[tuple[str, str]]) -> int:
    """Writes them, keyed by URL, by an idempotent producer; returns how many."""
    producer = Producer(connection.config(enable_idempotence=True, partitioner="murmur2_random"))
    failed: list[KafkaError] = []

    def heard(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    count = 0
    for url, value in announcements:
        producer.produce(topic, value.encode(), url.encode(), on_delivery=heard)
        producer.poll(0)
        count += 1
    if producer.flush(ACKNOWLEDGED_SECONDS) or failed:
        why = failed[0].str() if failed else "the brokers do not answer"
        raise EosError(
            f"Not every file was announced on {topic}: {why}.", "Look with `eos doctor`, and announce again."
        )
    return count
