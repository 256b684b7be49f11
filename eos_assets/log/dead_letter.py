"""The headers that a dead letter has after those of its source record."""

import re

from eos_assets.kafka.headers import Header

ERROR, CODE, PIPELINE, ORIGIN, TIMESTAMP = "eos.error", "eos.code", "eos.pipeline", "eos.origin", "eos.timestamp"
#: The same for tools that know the dead letters of Kafka Streams; all values are texts, as it writes them.
STREAMS = "__streams.errors."
STREAMS_NAMES = tuple(f"{STREAMS}{name}" for name in ("exception", "message", "topic", "partition", "offset"))
#: Every header that is added to those of the source record.
ADDED = (ERROR, CODE, PIPELINE, ORIGIN, TIMESTAMP, *STREAMS_NAMES)
#: Instead of the headers of a source record that the client could not decode.
UNREADABLE_HEADERS: Header = ("eos.headers", b"left out: a header key is not valid UTF-8")
#: Room must be left for a large record.
REASON_CHARACTERS = 4_000
#: The header for other tools need not repeat all of it.
MESSAGE_CHARACTERS = 200
CODE_CHARACTERS = 80

#: A condition as Spark writes it, or a word before a colon: a code of the user, or the class of an exception.
NAMED_CODE = re.compile(r"\[([A-Z][A-Z0-9_.]*)\]|([A-Za-z_][\w.-]*):(?:\s|$)")
#: What differs between records with the same fault: quoted texts and numbers.
VARIABLE = re.compile(r"""'[^']*'|"[^"]*"|-?\d+(?:[.,]\d+)*""")


def dead_letter_headers(
    reason: bytes, pipeline: str, topic: str, partition: int, offset: int, timestamp: int
) -> list[Header]:
    """Why a source record was rejected, by which pipeline, and where it is.

    Args:
        reason: what the transform returned or raised.
        pipeline: the name of the pipeline.
        topic: the source.
        partition: the source partition.
        offset: the source offset.
        timestamp: that of the source record, in milliseconds: the dead letter has one of its own.
    """
    text = reason.decode(errors="replace")[:REASON_CHARACTERS]
    code = reason_code(text)
    message = text[:MESSAGE_CHARACTERS]
    values = (text, code, pipeline, f"{topic}/{partition}/{offset}", timestamp, code, message, topic, partition, offset)
    return [(name, str(value).encode()) for name, value in zip(ADDED, values, strict=True)]


def reason_code(reason: str) -> str:
    """What dead letters are grouped by: `bad_amount` of the reason `bad_amount: -3`, `CAST_INVALID_INPUT` of a
    condition of Spark, `ValueError` of an exception; else the reason without its numbers and quoted texts."""
    if named := NAMED_CODE.match(reason):
        return (named[1] or named[2])[:CODE_CHARACTERS]
    first_line = reason.strip().partition("\n")[0]
    return VARIABLE.sub("…", first_line)[:CODE_CHARACTERS].strip() or "(no reason)"
