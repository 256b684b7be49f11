"""Announces files: writes one record per file, which refers to it, to a topic."""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection

DELIVERY_SECONDS = 60.0


def announcement(location: str, declared: str | None = None, *, checksum: bool = True) -> tuple[str, str]:
    """The URL and the record value for a path or a URL. Only the file of a path is read, for its checksum."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", location):
        url, digest = location, None
    else:
        path = Path(location).absolute()
        if not path.is_file():
            raise EosError(f"There is no file {location}.", "Give files that exist, or URLs.")
        url, digest = path.as_uri(), digest_of(path) if checksum else None
    fields = {name: value for name, value in {"format": declared, "checksum": digest}.items() if value}
    return url, json.dumps({"url": url, **fields}) if fields else url


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def announce(connection: Connection, topic: str, announcements: Iterable[tuple[str, str]]) -> int:
    """Write the announcements with an idempotent producer, keyed by URL, and return their number."""
    producer = Producer(connection.config(enable_idempotence=True, partitioner="murmur2_random"))
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    count = 0
    for url, value in announcements:
        producer.produce(topic, value.encode(), url.encode(), on_delivery=on_delivery)
        producer.poll(0)
        count += 1
    if producer.flush(DELIVERY_SECONDS) or errors:
        cause = errors[0].str() if errors else "the brokers do not answer"
        raise EosError(
            f"Topic {topic}: not every file was announced: {cause}.", "Check with `eos doctor`, and announce again."
        )
    return count
