"""How much of a file is fetched at most: limits in, a meter that stops whatever goes beyond them out."""

import time
from dataclasses import dataclass

from eos_assets.files.broken import Refused

#: Little data may be as compressible as it likes: it harms nobody.
HARMLESS_BYTES = 16 << 20


@dataclass(frozen=True)
class Limits:
    """Each is a setting of its own, named in the reason of whatever it stops."""

    max_bytes: int = 4 << 30
    max_unpacked_bytes: int = 16 << 30
    max_ratio: int = 200
    max_seconds: float = 600.0
    #: One line, one element of a JSON array, one value in a Parquet file.
    max_row_bytes: int = 1 << 20


class Meter:
    """What one file has taken so far: bytes, unpacked bytes and time."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.deadline = time.monotonic() + limits.max_seconds
        self.begin()

    def begin(self) -> None:
        """Another try: the bytes count from 0 again, the time does not."""
        self.fetched = 0
        self.unpacked = 0

    def remaining(self) -> float:
        """Seconds that are left."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Refused(f"the file takes longer than {self.limits.max_seconds:g} s (EOS_FILES_MAX_SECONDS)")
        return left

    def announce(self, size: int) -> None:
        """A size that is known before anything is fetched."""
        if size > self.limits.max_bytes:
            raise Refused(f"too large: {size} bytes, allowed are {self.limits.max_bytes} (EOS_FILES_MAX_BYTES)")

    def room(self) -> int:
        """How many bytes may be fetched before it is sure that they are too many."""
        return self.limits.max_bytes - self.fetched + 1

    def fetch(self, size: int) -> None:
        self.fetched += size
        if self.fetched > self.limits.max_bytes:
            raise Refused(f"too large: more than {self.limits.max_bytes} bytes (EOS_FILES_MAX_BYTES)")
        self.remaining()

    def unpack(self, size: int) -> None:
        self.unpacked += size
        self.judge(self.unpacked, self.fetched)
        self.remaining()

    def judge(self, unpacked: int, packed: int) -> None:
        if unpacked > self.limits.max_unpacked_bytes:
            allowed = self.limits.max_unpacked_bytes
            raise Refused(f"too large: more than {allowed} bytes when unpacked (EOS_FILES_MAX_UNPACKED_BYTES)")
        if unpacked > HARMLESS_BYTES and unpacked > self.limits.max_ratio * packed:
            raise Refused(
                f"a decompression bomb: {packed} bytes unpack to more than {self.limits.max_ratio} times as many "
                "(EOS_FILES_MAX_RATIO)"
            )
