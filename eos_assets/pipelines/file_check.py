"""Whether the files are still those that were delivered: the ledger's digests against those of today."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eos_assets.declare.check import Check, Finding
from eos_assets.declare.pipeline import Pipeline
from eos_assets.files import reference
from eos_assets.files.access import Access
from eos_assets.files.broken import BrokenFile
from eos_assets.files.download import download
from eos_assets.files.limits import Meter
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets.kafka.reader import read_partition
from eos_assets.log import ledger
from eos_assets.log.ledger import LedgerEntry
from eos_assets.log.reader import CommittedReader
from eos_assets.platform.settings import Settings
from eos_assets.verify.invariants import SHOWN, Violations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "files_match_ledger"
#: So many files of each partition, the newest ones, are fetched again, and for so long altogether.
NEWEST = 1000
SECONDS = 120.0


@dataclass(frozen=True)
class FileSeen:
    """One file: the digest that was delivered, and the one of today, or why there is none."""

    url: str
    partition: int
    offset: int
    delivered: str
    today: str | None
    reason: str = ""
    #: Another digest, which an attempt saw that was not committed.
    before: str | None = None
    #: False if there was no time left to look.
    looked: bool = True

    @property
    def place(self) -> str:
        return f"{self.url}, offset {self.offset} of partition {self.partition}"


def files_match_ledger(files: Iterable[FileSeen]) -> Finding:
    """Every file that can still be fetched has the digest of the ledger. A difference is a warning: what was delivered
    stays as the ledger says, and somebody should know that the file says something else by now."""
    changed, equal, gone, left, why = Violations(), 0, 0, 0, ""
    between: list[str] = []
    for file in files:
        if file.before is not None:
            between.append(f"{file.place}: an attempt before saw {file.before}, delivered {file.delivered}")
        if not file.looked:
            left += 1
        elif file.today is None:
            gone += 1
            why = why or file.reason
        elif file.today == file.delivered:
            equal += 1
        else:
            changed.add(f"{file.place}: delivered {file.delivered}, today {file.today}")
    note = f", {gone} cannot be fetched any more" if gone else ""
    note += f", {left} not looked at for lack of time" if left else ""
    note += f", {len(between)} changed between two attempts" if between else ""
    if note and not equal and not changed.count:  # nothing was compared: neither green nor red
        return unseen(note.removeprefix(", ") + (f": {why}" if why else ""))
    found = changed.finding(NAME, f"{equal:,} files as delivered{note}", f"files changed{note}", severity="warning")
    return replace(found, examples=(*found.examples, *between[:SHOWN]))


def unseen(why: str) -> Finding:
    return Finding(NAME, True, f"not evaluated: {why}", evaluated=False)


def look(pipeline: Pipeline, spark: "SparkSession", connection: Connection) -> Finding:
    access = Settings.load().files
    if access.nowhere:
        return unseen("no place for files is declared here (EOS_FILES_ROOT, EOS_FILES_HOSTS, EOS_FILES_STORES)")
    return files_match_ledger(files_again(pipeline, connection, access))


def files_again(pipeline: Pipeline, connection: Connection, access: Access) -> Iterator[FileSeen]:
    """Fetches the files of the retained source records again, and hashes them, as long as there is time."""
    deadline = time.monotonic() + SECONDS
    reader = CommittedReader(connection.config(), pipeline.names())
    retained = bounds(connection, pipeline.source.name)
    try:
        for partition in connection.partitions(pipeline.names().ledger):
            place = (connection, pipeline.names().ledger, partition)
            delivered = dict(digests(*place))
            offsets = [offset for offset in sorted(delivered) if offset >= retained[partition].start][-NEWEST:]
            tried = digests(*place, isolation="read_uncommitted")  # aborted attempts are still there, for who asks
            before = {o: digest for o, digest in tried if delivered.get(o, digest) != digest}
            for offset, source in zip(offsets, reader.fetch(partition, offsets), strict=True):
                if time.monotonic() < deadline:
                    again = seen_again(source.value(), partition, offset, delivered[offset], access)
                else:
                    again = FileSeen("", partition, offset, delivered[offset], None, looked=False)
                yield replace(again, before=before.get(offset))
    finally:
        reader.close()


def digests(
    connection: Connection, topic: str, partition: int, isolation: str = "read_committed"
) -> Iterator[tuple[int, str]]:
    """Source offset and digest of each file that a ledger partition tells of."""
    for message in read_partition(connection, topic, partition, isolation=isolation):
        entry = ledger.read(message)
        if isinstance(entry, LedgerEntry):
            yield from ((int(offset), digest) for offset, digest in entry.files.items())


def seen_again(value: bytes | None, partition: int, offset: int, delivered: str, access: Access) -> FileSeen:
    try:
        found = reference.parse(value)
        url = reference.public(found.url)
        with download(found, access, Meter(access.limits)) as source:
            return FileSeen(url, partition, offset, delivered, source.digest())
    except (BrokenFile, ValueError, OSError) as broken:  # also a root that is not there
        return FileSeen("", partition, offset, delivered, None, str(broken))


FILES_MATCH_LEDGER = Check(NAME, "Each file that can still be fetched has the digest that was delivered.", look)
