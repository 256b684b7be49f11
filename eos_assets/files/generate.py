"""Generate realistic files of bank transactions. The same seed gives the same file."""

import csv
import gzip
import io
import json
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from eos_assets.files.formats import Format, format_of, parse_format
from eos_assets.files.rows import COLUMNS

Transaction = dict[str, str]

TEXTS = (
    "Salary", "Rent", "Groceries, Market Hall", 'Café "Blaue Blume"', "Électricité de l'Est", "Insurance", "Transfer",
    "Card payment 4711", "Refund", "Zugfahrt Köln–Wien", "東京 出張", "Gift\nfor Anna",
)  # fmt: skip
CURRENCIES = ("EUR", "EUR", "EUR", "USD", "CHF", "GBP")
ROW_GROUP = 50_000


def make_transactions(count: int, *, seed: int = 0, accounts: int = 1000, prefix: str = "T") -> Iterator[Transaction]:
    """Make random transactions. Each account has one currency."""
    generator = random.Random(seed)
    moment = datetime(2026, 1, 1, 8, tzinfo=UTC)
    for number in range(count):
        account = generator.randrange(accounts)
        moment += timedelta(seconds=generator.randrange(1, 90))
        yield {
            "transaction_id": f"{prefix}{seed}-{number:09d}",
            "account": f"DE{10 + account % 89}50010517{account:010d}",
            "amount": f"{Decimal(round(generator.gauss(0, 40_000))) / 100:.2f}",
            "currency": CURRENCIES[account % len(CURRENCIES)],
            "booked_at": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "text": generator.choice(TEXTS),
        }


def write_file(path: Path, rows: Iterable[Transaction], declared: str | None = None) -> Path:
    """Write the rows in the declared format, or in the one that the name of the file shows."""
    chosen = Format(*parse_format(declared)) if declared else format_of(None, path.name)
    with open_packed(path, chosen.compression) as stream:
        WRITERS[chosen.kind](stream, rows)
    return path


@contextmanager
def open_packed(path: Path, compression: str | None) -> Iterator[BinaryIO]:
    with path.open("wb") as file:
        if compression == "gzip":
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as stream:  # without name and time: the same bytes
                yield stream  # type: ignore[misc]
        elif compression == "zstd":
            with pa.CompressedOutputStream(file, "zstd") as stream:
                yield stream
        else:
            yield file


def write_csv(stream: BinaryIO, rows: Iterable[Transaction]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([row[name] for name in COLUMNS])
        if text.tell() > 1 << 16:
            stream.write(text.getvalue().encode())
            text.seek(0)
            text.truncate()
    stream.write(text.getvalue().encode())


def write_jsonl(stream: BinaryIO, rows: Iterable[Transaction]) -> None:
    for row in rows:
        stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def write_json(stream: BinaryIO, rows: Iterable[Transaction]) -> None:
    separator = b"[\n"
    for row in rows:
        stream.write(separator + json.dumps(row, ensure_ascii=False).encode())
        separator = b",\n"
    stream.write(b"[]\n" if separator == b"[\n" else b"\n]\n")


def write_parquet(stream: BinaryIO, rows: Iterable[Transaction]) -> None:
    """Write amounts as decimals and times as timestamps, as a data warehouse does."""
    kinds = {"amount": pa.decimal128(20, 2), "booked_at": pa.timestamp("us", "UTC")}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    with pq.ParquetWriter(stream, schema) as writer:
        group: list[Transaction] = []
        for row in rows:
            group.append(row)
            if len(group) == ROW_GROUP:
                writer.write_batch(typed_batch(group, schema))
                group = []
        writer.write_batch(typed_batch(group, schema))


def typed_batch(group: list[Transaction], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([row[field.name] for row in group], pa.string()).cast(field.type) for field in schema]
    return pa.record_batch(columns, schema=schema)


WRITERS: dict[str, Callable[[BinaryIO, Iterable[Transaction]], None]] = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "json": write_json,
    "parquet": write_parquet,
}
