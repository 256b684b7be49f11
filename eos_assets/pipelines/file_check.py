"""The check of `file_transactions` that the files still have the digests in the ledger."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eos_assets.deadlines import Deadline
from eos_assets.declare.check import Check, Finding
from eos_assets.declare.pipeline import Pipeline
from eos_assets.files import reference
from eos_assets.files.access import Access
from eos_assets.files.errors import FileError
from eos_assets.files.fetch import fetch
from eos_assets.files.limits import Meter
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets.kafka.reader import read_partition
from eos_assets.log import ledger
from eos_assets.log.ledger import LedgerEntry, LetterEntry
from eos_assets.log.reader import CommittedReader
from eos_assets.platform.settings import Settings
from eos_assets.verify.invariants import SHOWN, Violations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "files_match_ledger"
#: Only the newest files of each partition are fetched again, and all of them within this time.
FILES_PER_PARTITION = 1000
TIME_LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class FileComparison:
    """The delivered digest of a file and its current one, or the reason why the file cannot be fetched."""

    url: str
    partition: int
    offset: int
    delivered: str
    current: str | None
    reason: str = ""
    #: The digest that an aborted attempt found, if it is another one than the delivered digest.
    aborted: str | None = None
    #: False if the time was up before the file was fetched.
    fetched: bool = True

    @property
    def place(self) -> str:
        return f"{self.url}, offset {self.offset} of partition {self.partition}"


def check_files(pipeline: Pipeline, spark: "SparkSession", connection: Connection) -> Finding:
    """Compare the files with the ledger, if places to fetch them from are declared here."""
    access = Settings.load().files
    if access.empty:
        return not_evaluated("no place for files is declared here (EOS_FILES_ROOT, EOS_FILES_HOSTS, EOS_FILES_STORES)")
    return files_match_ledger(compare_files(pipeline, connection, access))


def files_match_ledger(files: Iterable[FileComparison]) -> Finding:
    """Every file that can still be fetched has the digest of the ledger.

    A difference is a warning: the ledger has the digest of what was delivered, and the file has changed since.
    """
    changed, equal, unavailable, not_fetched, reason = Violations(), 0, 0, 0, ""
    between_attempts: list[str] = []
    for file in files:
        if file.aborted is not None:
            between_attempts.append(
                f"{file.place}: an aborted attempt found {file.aborted}, delivered {file.delivered}"
            )
        if not file.fetched:
            not_fetched += 1
        elif file.current is None:
            unavailable += 1
            reason = reason or file.reason
        elif file.current == file.delivered:
            equal += 1
        else:
            changed.add(f"{file.place}: delivered {file.delivered}, today {file.current}")
    note = f", {unavailable} can no longer be fetched" if unavailable else ""
    note += f", {not_fetched} not fetched for lack of time" if not_fetched else ""
    note += f", {len(between_attempts)} changed between two attempts" if between_attempts else ""
    if note and not equal and not changed.count:
        return not_evaluated(note.removeprefix(", ") + (f": {reason}" if reason else ""))
    finding = changed.finding(NAME, f"{equal:,} files as delivered{note}", f"files changed{note}", severity="warning")
    return replace(finding, examples=(*finding.examples, *between_attempts[:SHOWN]))


def not_evaluated(reason: str) -> Finding:
    return Finding(NAME, True, f"not evaluated: {reason}", evaluated=False)


def compare_files(pipeline: Pipeline, connection: Connection, access: Access) -> Iterator[FileComparison]:
    """Fetch the files of the retained source records again, until the time is up."""
    deadline = Deadline(TIME_LIMIT_SECONDS)
    names = pipeline.names()
    reader = CommittedReader(connection.config(), names)
    retained = bounds(connection, pipeline.source.name)
    try:
        for partition in connection.partitions(names.ledger):
            delivered = dict(read_digests(connection, names.ledger, partition, "read_committed"))
            attempts = read_digests(connection, names.ledger, partition, "read_uncommitted")
            aborted = {offset: digest for offset, digest in attempts if delivered.get(offset, digest) != digest}
            readable = [offset for offset in sorted(delivered) if offset >= retained[partition].start]
            offsets = readable[-FILES_PER_PARTITION:]
            for offset, source in zip(offsets, reader.fetch(partition, offsets), strict=True):
                comparison = FileComparison("", partition, offset, delivered[offset], None, fetched=False)
                if not deadline.passed:
                    comparison = compare_file(source.value(), partition, offset, delivered[offset], access)
                yield replace(comparison, aborted=aborted.get(offset))
    finally:
        reader.close()


def read_digests(connection: Connection, topic: str, partition: int, isolation: str) -> Iterator[tuple[int, str]]:
    """The source offset and the digest of each file in a ledger partition, with `read_uncommitted` also those of
    aborted attempts."""
    for message in read_partition(connection, topic, partition, isolation=isolation):
        entry = ledger.read(message)
        if isinstance(entry, LedgerEntry | LetterEntry):
            yield from ((int(offset), digest) for offset, digest in entry.files.items())


def compare_file(value: bytes | None, partition: int, offset: int, delivered: str, access: Access) -> FileComparison:
    try:
        parsed = reference.parse(value)
        url = reference.without_query(parsed.url)
        with fetch(parsed, access, Meter(access.limits)) as download:
            return FileComparison(url, partition, offset, delivered, download.digest())
    except (FileError, ValueError, OSError) as failure:  # an OSError is a declared folder that does not exist
        return FileComparison("", partition, offset, delivered, None, str(failure))


FILES_MATCH_LEDGER = Check(NAME, "Each file that can still be fetched has the digest that was delivered.", check_files)
