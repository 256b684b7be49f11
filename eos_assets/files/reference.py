"""A record's value in, the file it refers to out: a URL, or JSON with `url`, `format` and `checksum`."""

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from eos_assets.files.broken import BrokenFile, Refused, shown
from eos_assets.files.formats import Format, format_of

MAX_LENGTH = 8192
FIELDS = ("url", "format", "checksum")
#: What others call a checksum. Fields of any other name are left out.
DIGEST = re.compile(r"(?i)(sha|md)[-_]?\d+.*|.*(digest|hash|check_?sum|crc).*")


@dataclass(frozen=True)
class Reference:
    """Where a file is, what it holds, and, if declared, the digest that its bytes must have."""

    url: str
    format: Format
    checksum: str | None = None

    @property
    def scheme(self) -> str:
        return urlsplit(self.url).scheme


def parse(value: bytes | None) -> Reference:
    """Raises what is wrong with a value that refers to no file."""
    if value is None:
        raise BrokenFile("the record has no value")
    if len(value) > MAX_LENGTH:
        raise BrokenFile(f"the reference has {len(value)} bytes; at most {MAX_LENGTH} are read")
    try:
        text = value.decode().strip()
    except UnicodeDecodeError:
        raise BrokenFile("the reference is not UTF-8") from None
    declared = parse_json(text) if text.startswith("{") else {"url": text}
    url = declared["url"]
    path = check_url(url)
    return Reference(url, format_of(declared.get("format"), path), checksum(declared.get("checksum")))


def parse_json(text: str) -> dict[str, str]:
    try:
        content = json.loads(text, object_pairs_hook=fields)
    except (ValueError, RecursionError):
        raise BrokenFile("the reference looks like JSON and is none") from None
    for name in FIELDS:
        if content.get(name) is not None and not isinstance(content[name], str):
            raise BrokenFile(f"`{name}` of the reference is no text")
    digests = [name for name in content if name not in FIELDS and DIGEST.fullmatch(name)]
    if digests:  # under such a name nobody would look at it
        raise BrokenFile(f'the reference has a field {shown(digests[0])}; say `checksum`: "sha256:…"')
    if not content.get("url"):
        raise BrokenFile("the reference has no `url`")
    return {name: value for name, value in content.items() if value is not None}


def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = [name for name in FIELDS if names.count(name) > 1]
    if twice:
        raise BrokenFile(f"the reference has `{twice[0]}` twice")
    return dict(pairs)


def check_url(url: str) -> str:
    """What every URL must be, whatever its scheme. Characters that parsers read differently are refused."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:.+", url):
        raise Refused(f"{shown(url)} is no URL")
    if re.search(r"[\s\\\x00-\x1f\x7f]", url):
        raise Refused("the URL holds blanks, control characters or backslashes")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as wrong:
        raise Refused(f"no URL: {shown(wrong, 200)}") from None
    if "@" in parts.netloc:
        raise Refused("the URL carries credentials: nothing secret belongs into a record")
    if host is not None and not host.isascii():
        raise Refused("the host is not written in ASCII")
    return parts.path


def checksum(text: str | None) -> str | None:
    if text is None:
        return None
    if not re.fullmatch(r"sha256:[0-9a-fA-F]{64}", text):
        raise BrokenFile(f"checksum {shown(text)} is not sha256: and 64 hexadecimal digits")
    return text.lower()


def public(url: str) -> str:
    """A URL as it may be shown: what stands behind the path may be a signature."""
    return re.split(r"[?#]", url)[0] + ("?…" if "?" in url else "")
