"""Records of the rows of a file: the key and the canonical JSON value of each transaction, with every field checked."""

import re
from datetime import UTC, date, datetime
from json.encoder import encode_basestring

import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.files.errors import quote
from eos_assets.files.rows import Rows

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])
#: Key and value. A broker accepts 1,048,588 bytes by default; the rest is for headers.
MAX_RECORD_BYTES = 1_000_000

#: Column → the pattern of a valid value, and the reason why another one is rejected.
PATTERNS = {
    "transaction_id": (r"^[^\p{Z}\p{Cc}]{1,200}$", "is not an id of at most 200 characters without whitespace"),
    "account": (r"^[^\p{Z}\p{Cc}]{1,100}$", "is not an account of at most 100 characters without whitespace"),
    "amount": (r"^-?(0|[1-9][0-9]{0,27})(\.[0-9]{1,10})?$", "is not a decimal number such as -12.34"),
    "currency": (r"^[A-Z]{3}$", "is not a currency code of three capital letters"),
}
TIMESTAMP = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,5}[1-9])?Z$"
TO_ESCAPE = r'["\\\x00-\x1f]'


def encode_transactions(rows: Rows) -> pa.RecordBatch:
    """Return the key and value of each row, or raise the error of the first invalid one."""
    columns = validate(rows)
    columns["text"] = pc.fill_null(columns["text"], "")
    account = columns["account"]
    for name in ("transaction_id", "account", "text"):
        columns[name] = escape_json(columns[name])
    records = pa.record_batch([account.cast(pa.binary()), join_json(columns).cast(pa.binary())], schema=SCHEMA)
    too_large = pc.greater(pc.add(*(pc.binary_length(records[name]) for name in SCHEMA.names)), MAX_RECORD_BYTES)
    if pc.any(too_large, min_count=0).as_py():
        raise rows.error(pc.index(too_large, True).as_py(), f"longer than {MAX_RECORD_BYTES} bytes as a record")
    return records


def validate(rows: Rows) -> dict[str, pa.StringArray]:
    """Return the columns with normalized timestamps, or raise the error of the first invalid row."""
    columns = dict(rows.columns)
    problems: list[tuple[int, str]] = []
    for name, (pattern, reason) in PATTERNS.items():
        valid = pc.fill_null(pc.match_substring_regex(columns[name], pattern), False)
        if not pc.all(valid, min_count=0).as_py():
            index = pc.index(valid, False).as_py()
            problems.append((index, describe_value(name, columns[name][index].as_py(), reason)))
    columns["booked_at"] = normalize_timestamps(columns["booked_at"], problems)
    if problems:
        raise rows.error(*min(problems, key=lambda problem: problem[0]))
    return columns


def describe_value(name: str, value: str | None, reason: str) -> str:
    return f"{name} {quote(value)} {reason}" if value else f"{name} is missing"


def normalize_timestamps(values: pa.StringArray, problems: list[tuple[int, str]]) -> pa.StringArray:
    """ISO timestamps in UTC. If all have the usual form they are checked at once, else one by one."""
    if have_usual_form(values):
        return values
    normalized = []
    for index, text in enumerate(values.to_pylist()):
        timestamp = normalize_timestamp(text)
        if timestamp is None:
            reason = "is not an ISO timestamp such as 2026-05-04T09:30:00Z"
            problems.append((index, describe_value("booked_at", text, reason)))
            return values
        normalized.append(timestamp)
    return pa.array(normalized, pa.string())


def have_usual_form(values: pa.StringArray) -> bool:
    if not pc.all(pc.fill_null(pc.match_substring_regex(values, TIMESTAMP), False), min_count=0).as_py():
        return False
    try:
        values.cast(pa.timestamp("us", "UTC"))
    except pa.ArrowException:  # such as 30 February
        return False
    return True


def normalize_timestamp(text: str | None) -> str | None:
    """One timestamp in UTC, or None if it is not valid. Without a zone it is taken as UTC."""
    try:
        date.fromisoformat(re.split("[T ]", text or "", maxsplit=1)[0])  # `datetime` accepts any separator
        moment = datetime.fromisoformat(text or "")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    fraction = f".{moment.microsecond:06d}".rstrip("0.")
    return f"{moment.isoformat()[:19]}{fraction}Z"


def escape_json(values: pa.StringArray) -> pa.StringArray:
    """The values as they are written between the quotes of a JSON string."""
    needed = pc.match_substring_regex(values, TO_ESCAPE)
    if not pc.any(needed, min_count=0).as_py():
        return values
    escaped = [encode_basestring(text)[1:-1] for text in values.filter(needed).to_pylist()]
    return pc.replace_with_mask(values, needed, pa.array(escaped, pa.string()))


def join_json(columns: dict[str, pa.StringArray]) -> pa.StringArray:
    """One JSON object per row, with the fields in alphabetical order."""
    parts: list[object] = []
    for number, name in enumerate(sorted(columns)):
        parts += [f'{"," if number else "{"}"{name}":"', columns[name], '"']
    return pc.binary_join_element_wise(*parts, "}", "")
