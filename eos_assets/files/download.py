"""A reference in, its bytes out as a stream that counts, hashes and stops at the limits."""

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from eos_assets.files.access import Access
from eos_assets.files.limits import Meter
from eos_assets.files.local_file import open_local
from eos_assets.files.reference import Reference
from eos_assets.files.source import Source
from eos_assets.files.store import open_store
from eos_assets.files.web import open_web

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK = 1 << 16
OPENERS = {"file": open_local, "http": open_web, "https": open_web}


class Download(io.RawIOBase):
    """The bytes of one file, each hashed as it comes by."""

    def __init__(self, source: Source, meter: Meter) -> None:
        super().__init__()
        self._read = source.read
        self.sure_end = source.sure_end
        self.meter = meter
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        data = self._read(min(len(view), CHUNK, self.meter.room()))
        self.meter.fetch(len(data))
        self._hash.update(data)
        view[: len(data)] = data
        return len(data)

    def digest(self) -> str:
        """The digest of the whole file: what is left of it is fetched, too."""
        space = bytearray(CHUNK)
        while self.readinto(space):
            continue
        return f"sha256:{self._hash.hexdigest()}"


@contextmanager
def download(reference: Reference, access: Access, meter: Meter) -> Iterator[Download]:
    opener = OPENERS.get(reference.scheme, open_store)
    with opener(reference.url, access, meter) as source:
        yield Download(source, meter)
