"""Rows of a file in, transactions out: key and canonical JSON value of each record, checked to the last field."""

import re
from datetime import UTC, date, datetime
from json.encoder import encode_basestring

import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.files.broken import shown
from eos_assets.files.rows import Rows

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])
#: Key and value. A broker takes 1,048,588 bytes unless told otherwise; the rest is room for headers.
MAX_RECORD_BYTES = 1_000_000

#: Column → what it must look like, and what to say otherwise.
LOOKS = {
    "transaction_id": (r"^[^\p{Z}\p{Cc}]{1,200}$", "is no id of at most 200 characters without blanks"),
    "account": (r"^[^\p{Z}\p{Cc}]{1,100}$", "is no account of at most 100 characters without blanks"),
    "amount": (r"^-?(0|[1-9][0-9]{0,27})(\.[0-9]{1,10})?$", "is no decimal number such as -12.34"),
    "currency": (r"^[A-Z]{3}$", "is no currency code of three capital letters"),
}
INSTANT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,5}[1-9])?Z$"
TO_ESCAPE = r'["\\\x00-\x1f]'


def transactions(rows: Rows) -> pa.RecordBatch:
    """Key and value of each row; raises the first row that is wrong."""
    columns = dict(rows.columns)
    problems: list[tuple[int, str]] = []
    for name, (look, reason) in LOOKS.items():
        fits = pc.fill_null(pc.match_substring_regex(columns[name], look), False)
        if not pc.all(fits, min_count=0).as_py():
            index = pc.index(fits, False).as_py()
            problems.append((index, wrong(name, columns[name][index].as_py(), reason)))
    columns["booked_at"] = instants(columns["booked_at"], problems)
    if problems:
        raise rows.bad(*min(problems, key=lambda problem: problem[0]))
    columns["text"] = pc.fill_null(columns["text"], "")
    account = columns["account"]
    for name in ("transaction_id", "account", "text"):
        columns[name] = escaped(columns[name])
    parts: list[object] = []
    for number, name in enumerate(sorted(columns)):
        parts += [f'{"," if number else "{"}"{name}":"', columns[name], '"']
    value = pc.binary_join_element_wise(*parts, "}", "")
    records = pa.record_batch([account.cast(pa.binary()), value.cast(pa.binary())], schema=SCHEMA)
    too_large = pc.greater(pc.add(*(pc.binary_length(records[name]) for name in SCHEMA.names)), MAX_RECORD_BYTES)
    if pc.any(too_large, min_count=0).as_py():
        raise rows.bad(pc.index(too_large, True).as_py(), f"longer than {MAX_RECORD_BYTES} bytes as a record")
    return records


def wrong(name: str, value: str | None, reason: str) -> str:
    return f"{name} {shown(value)} {reason}" if value else f"{name} is missing"


def instants(values: pa.StringArray, problems: list[tuple[int, str]]) -> pa.StringArray:
    """ISO timestamps in UTC. The usual ones are checked all at once, the others one by one."""
    usual = pc.all(pc.fill_null(pc.match_substring_regex(values, INSTANT), False), min_count=0).as_py()
    if usual:
        try:
            values.cast(pa.timestamp("us", "UTC"))
        except pa.ArrowException:
            usual = False
    if usual:
        return values
    found = []
    for index, text in enumerate(values.to_pylist()):
        moment = instant(text)
        if moment is None:
            problems.append((index, wrong("booked_at", text, "is no ISO timestamp such as 2026-05-04T09:30:00Z")))
            return values
        found.append(moment)
    return pa.array(found, pa.string())


def instant(text: str | None) -> str | None:
    """One timestamp in UTC; without a zone it is taken as UTC. None if it is none."""
    try:
        date.fromisoformat(re.split("[T ]", text or "", maxsplit=1)[0])  # `datetime` takes any separator
        moment = datetime.fromisoformat(text or "")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    fraction = f".{moment.microsecond:06d}".rstrip("0.")
    return f"{moment.isoformat()[:19]}{fraction}Z"


def escaped(values: pa.StringArray) -> pa.StringArray:
    """The values as they stand between the quotes of a JSON string."""
    needed = pc.match_substring_regex(values, TO_ESCAPE)
    if not pc.any(needed, min_count=0).as_py():
        return values
    replaced = [encode_basestring(text)[1:-1] for text in values.filter(needed).to_pylist()]
    return pc.replace_with_mask(values, needed, pa.array(replaced, pa.string()))
