"""The bytes of one file as a stream that counts, hashes and stops at the limits."""

import hashlib
import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from eos_assets.files.limits import Meter

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

READ_BYTES = 1 << 16
#: Returns at most the requested number of bytes as soon as there are any, and none at the end.
Read = Callable[[int], bytes]


class Download(io.RawIOBase):
    """One file, hashed as it is read. Unless the store detects a truncation, a truncated file ends like a whole one."""

    def __init__(self, read: Read, meter: Meter, *, detects_truncation: bool = True) -> None:
        super().__init__()
        self.detects_truncation = detects_truncation
        self._read = read
        self._meter = meter
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        data = self._read(min(len(view), READ_BYTES, self._meter.fetchable()))
        self._meter.count_fetched(len(data))
        self._hash.update(data)
        view[: len(data)] = data
        return len(data)

    def digest(self) -> str:
        """Read the rest of the file, and return the digest of all of it."""
        buffer = bytearray(READ_BYTES)
        while self.readinto(buffer):
            continue
        return f"sha256:{self._hash.hexdigest()}"
