"""The formats of files, each declared by the reference or by the name of the file."""

import re
from dataclasses import dataclass

from eos_assets.files.errors import FileError, quote

KINDS = {
    "csv": "csv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "jsonlines": "jsonl",
    "json": "json",
    "parquet": "parquet",
}
COMPRESSIONS = {"gz": "gzip", "gzip": "gzip", "zst": "zstd", "zstd": "zstd"}
#: The formats that a reference may declare and `eos files generate` writes.
FORMATS = tuple(f"{kind}{suffix}" for kind in ("csv", "jsonl", "json", "parquet") for suffix in ("", ".gz", ".zst"))


@dataclass(frozen=True)
class Format:
    """CSV, JSON lines (`jsonl`), a JSON array (`json`) or Parquet, and its compression, if any."""

    kind: str
    compression: str | None = None

    @property
    def detects_truncation(self) -> bool:
        """False if a truncated file can look whole: lines may end anywhere."""
        return self.compression is not None or self.kind in ("json", "parquet")


def format_of(declared: str | None, path: str) -> Format:
    """The declared format, or the one that the suffixes of the name show. A declaration without a compression leaves
    the compression to the name: `csv` and `a.csv.gz` are a compressed CSV."""
    name = re.split(r"[/\\]", path)[-1].lower()
    suffixes = name.split(".")[1:]
    compression_of_name = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    if declared is not None:
        kind, compression = parse_format(declared)
        return Format(kind, compression or compression_of_name)
    if compression_of_name:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in KINDS:
        raise FileError(f"unknown format: the name {quote(name)} ends with none of {', '.join(FORMATS)}")
    return Format(KINDS[suffixes[-1]], compression_of_name)


def parse_format(declared: str) -> tuple[str, str | None]:
    """The kind and the compression of a declared format."""
    kind, _, compression = declared.lower().replace("+", ".").partition(".")
    if kind not in KINDS or (compression and compression not in COMPRESSIONS):
        raise FileError(f"unknown format {quote(declared)}; known formats are {', '.join(FORMATS)}")
    return KINDS[kind], COMPRESSIONS.get(compression)
