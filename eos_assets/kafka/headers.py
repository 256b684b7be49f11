"""The headers of a record, as the client gives them."""

from typing import cast

from confluent_kafka import Message

Header = tuple[str, bytes | None]


class UnreadableHeadersError(Exception):
    """The name of a header is not UTF-8: the client cannot return the headers of this record."""


def headers_of(message: Message) -> list[Header]:
    try:
        return cast(list[Header], message.headers() or [])  # its types allow for what a producer accepts, too
    except (SystemError, UnicodeError) as failure:
        place = f"{message.topic()}/{message.partition()} at offset {message.offset()}"
        raise UnreadableHeadersError(f"{place} has a header whose name is not UTF-8") from failure


def last_header(headers: list[Header], name: str) -> bytes | None:
    """The last one of this name: a record that was a dead letter before brings its old ones along."""
    return next((value for key, value in reversed(headers) if key == name), None)
