"""The headers that a dead letter has after those of its source record."""

from eos_assets.kafka.headers import Header

ERROR, PIPELINE, ORIGIN = "eos.error", "eos.pipeline", "eos.origin"
#: Room must be left for a large record.
REASON_CHARACTERS = 4_000


def dead_letter_headers(reason: bytes, pipeline: str, topic: str, partition: int, offset: int) -> list[Header]:
    """Why a source record was rejected, by which pipeline, and where it is."""
    return [
        (ERROR, reason.decode(errors="replace")[:REASON_CHARACTERS].encode()),
        (PIPELINE, pipeline.encode()),
        (ORIGIN, f"{topic}/{partition}/{offset}".encode()),
    ]
