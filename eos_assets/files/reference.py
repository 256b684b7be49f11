"""The reference to a file that a record holds: a URL, or JSON with `url`, `format` and `checksum`."""

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from eos_assets.files.errors import FileError, quote
from eos_assets.files.formats import Format, format_of

MAX_LENGTH = 8192
FIELDS = ("url", "format", "checksum")
#: Other usual names of a checksum. A field of any other name is ignored.
CHECKSUM_NAMES = re.compile(r"(?i)(sha|md)[-_]?\d+.*|.*(digest|hash|check_?sum|crc).*")


@dataclass(frozen=True)
class Reference:
    """The URL of a file, its format and, if declared, the digest that its bytes must have."""

    url: str
    format: Format
    checksum: str | None = None

    @property
    def scheme(self) -> str:
        return urlsplit(self.url).scheme


def parse(value: bytes | None) -> Reference:
    """Parse the value of a record; raise if it does not refer to a file."""
    if value is None:
        raise FileError("the record has no value")
    if len(value) > MAX_LENGTH:
        raise FileError(f"the reference has {len(value)} bytes, the limit is {MAX_LENGTH}")
    try:
        text = value.decode().strip()
    except UnicodeDecodeError:
        raise FileError("the reference is not UTF-8") from None
    fields = parse_json(text) if text.startswith("{") else {"url": text}
    url = fields["url"]
    path = check_url(url)
    return Reference(url, format_of(fields.get("format"), path), check_checksum(fields.get("checksum")))


def parse_json(text: str) -> dict[str, str]:
    """The fields of a JSON reference, without those that are null."""
    try:
        content = json.loads(text, object_pairs_hook=unique_fields)
    except (ValueError, RecursionError):
        raise FileError("the reference begins like JSON and is not valid JSON") from None
    for name in FIELDS:
        if content.get(name) is not None and not isinstance(content[name], str):
            raise FileError(f"`{name}` of the reference is not a string")
    ignored = [name for name in content if name not in FIELDS and CHECKSUM_NAMES.fullmatch(name)]
    if ignored:  # the sender expects a check that would not happen
        raise FileError(f'the reference has a field {quote(ignored[0])}; use `checksum`: "sha256:…"')
    if not content.get("url"):
        raise FileError("the reference has no `url`")
    return {name: value for name, value in content.items() if value is not None}


def unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    repeated = [name for name in FIELDS if names.count(name) > 1]
    if repeated:
        raise FileError(f"the reference has `{repeated[0]}` twice")
    return dict(pairs)


def check_url(url: str) -> str:
    """Check what holds for the URLs of all schemes, and return the path. Characters that URL parsers interpret in
    different ways are rejected."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:.+", url):
        raise FileError(f"{quote(url)} is not a URL")
    if re.search(r"[\s\\\x00-\x1f\x7f]", url):
        raise FileError("the URL contains whitespace, control characters or backslashes")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as failure:
        raise FileError(f"invalid URL: {quote(failure, 200)}") from None
    if "@" in parts.netloc:
        raise FileError("the URL contains credentials; declare them where the run is started, never in a record")
    if host is not None and not host.isascii():
        raise FileError("the host of the URL is not ASCII")
    return parts.path


def check_checksum(text: str | None) -> str | None:
    if text is None:
        return None
    if not re.fullmatch(r"sha256:[0-9a-fA-F]{64}", text):
        raise FileError(f"checksum {quote(text)} is not sha256: and 64 hexadecimal digits")
    return text.lower()


def without_query(url: str) -> str:
    """The URL for display: the query may contain a signature."""
    return re.split(r"[?#]", url)[0] + ("?…" if "?" in url else "")
