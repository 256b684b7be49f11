"""A declared format or a file's name in, what it holds and how it is compressed out."""

import re
from dataclasses import dataclass

from eos_assets.files.broken import BrokenFile, shown

KINDS = {
    "csv": "csv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "jsonlines": "jsonl",
    "json": "json",
    "parquet": "parquet",
}
COMPRESSIONS = {"gz": "gzip", "gzip": "gzip", "zst": "zstd", "zstd": "zstd"}
#: What `eos files generate` makes, and what a reference may declare.
FORMATS = tuple(f"{kind}{suffix}" for kind in ("csv", "jsonl", "json", "parquet") for suffix in ("", ".gz", ".zst"))


@dataclass(frozen=True)
class Format:
    """CSV, JSON lines (`jsonl`), a JSON array (`json`) or Parquet, as it is or compressed."""

    kind: str
    compression: str | None = None

    @property
    def has_an_end(self) -> bool:
        """Whether a file that was cut can be told from its content: lines may end anywhere."""
        return self.compression is not None or self.kind in ("json", "parquet")


def format_of(declared: str | None, path: str) -> Format:
    """The declared format, else by the name's suffixes. A declaration that says nothing of compression leaves that
    to the name: `csv` of `a.csv.gz` is compressed."""
    name = re.split(r"[/\\]", path)[-1].lower()
    parts = name.split(".")[1:]
    packed = COMPRESSIONS.get(parts[-1]) if parts else None
    if declared is not None:
        kind, compression = parse(declared)
        return Format(kind, compression or packed)
    inner = parts[:-1] if packed else parts
    if not inner or inner[-1] not in KINDS:
        raise BrokenFile(f"unknown format: the name {shown(name)} ends with none of {', '.join(FORMATS)}")
    return Format(KINDS[inner[-1]], packed)


def parse(declared: str) -> tuple[str, str | None]:
    kind, _, compression = declared.lower().replace("+", ".").partition(".")
    if kind not in KINDS or (compression and compression not in COMPRESSIONS):
        raise BrokenFile(f"unknown format {shown(declared)}; known are {', '.join(FORMATS)}")
    return KINDS[kind], COMPRESSIONS.get(compression)
