"""The headers of a record."""

from typing import cast

from confluent_kafka import Message

Header = tuple[str, bytes | None]


class UnreadableHeadersError(Exception):
    """The name of a header is not UTF-8, so the client cannot return the headers of the record."""


def headers_of(message: Message) -> list[Header]:
    try:
        return cast(list[Header], message.headers() or [])  # its types also allow what only a producer accepts
    except (SystemError, UnicodeError) as failure:
        record = f"{message.topic()}/{message.partition()} at offset {message.offset()}"
        raise UnreadableHeadersError(f"{record} has a header whose name is not UTF-8") from failure


def last_header(headers: list[Header], name: str) -> bytes | None:
    """The last header with this name. A record that was a dead letter before still has the earlier ones."""
    return next((value for key, value in reversed(headers) if key == name), None)
