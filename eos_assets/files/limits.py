"""The limits of size and time for one file, and the meter that enforces them."""

from dataclasses import dataclass

from eos_assets.deadlines import Deadline
from eos_assets.files.errors import LimitExceeded

#: The ratio is not checked below this size: highly compressible data is common in small files.
RATIO_CHECKED_FROM_BYTES = 16 << 20


@dataclass(frozen=True)
class Limits:
    """The largest file, its largest row and the longest time to fetch it. Each is a setting, named in its error."""

    max_bytes: int = 4 << 30
    max_unpacked_bytes: int = 16 << 30
    max_ratio: int = 200
    max_seconds: float = 600.0
    #: One line, one element of a JSON array, one value in a Parquet file.
    max_row_bytes: int = 1 << 20


class Meter:
    """Counts the bytes and the time that one file takes, and raises at a limit."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._deadline = Deadline(limits.max_seconds)
        self.restart()

    def restart(self) -> None:
        """Count the bytes of another attempt from 0. The time limit covers all attempts."""
        self.fetched = 0
        self.unpacked = 0

    def remaining(self) -> float:
        """The seconds that are left."""
        seconds = self._deadline.remaining
        if not seconds:
            raise LimitExceeded(f"the file takes longer than {self.limits.max_seconds:g} s (EOS_FILES_MAX_SECONDS)")
        return seconds

    def check_size(self, size: int) -> None:
        """Check a size that the store declares before anything is fetched."""
        if size > self.limits.max_bytes:
            raise LimitExceeded(f"too large: {size} bytes, the limit is {self.limits.max_bytes} (EOS_FILES_MAX_BYTES)")

    def fetchable(self) -> int:
        """The bytes to request at most: one more than the limit leaves, so that exceeding it is noticed."""
        return self.limits.max_bytes - self.fetched + 1

    def count_fetched(self, size: int) -> None:
        self.fetched += size
        if self.fetched > self.limits.max_bytes:
            raise LimitExceeded(f"too large: more than {self.limits.max_bytes} bytes (EOS_FILES_MAX_BYTES)")
        self.remaining()

    def count_unpacked(self, size: int) -> None:
        self.unpacked += size
        self.check_unpacked(self.unpacked, self.fetched)
        self.remaining()

    def check_unpacked(self, unpacked: int, packed: int) -> None:
        """Check the unpacked size, and its ratio to the packed one."""
        limits = self.limits
        if unpacked > limits.max_unpacked_bytes:
            raise LimitExceeded(
                f"too large: more than {limits.max_unpacked_bytes} bytes when unpacked (EOS_FILES_MAX_UNPACKED_BYTES)"
            )
        if unpacked > RATIO_CHECKED_FROM_BYTES and unpacked > limits.max_ratio * packed:
            raise LimitExceeded(
                f"a decompression bomb: {packed} bytes unpack to more than {limits.max_ratio} times as many "
                "(EOS_FILES_MAX_RATIO)"
            )
