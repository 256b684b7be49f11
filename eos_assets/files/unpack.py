"""Compressed bytes in, the unpacked stream out; truncated ones and bombs are told."""

import io
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa

from eos_assets.files.broken import BrokenFile, check_disk
from eos_assets.files.limits import Meter

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BUFFER = 1 << 18


class Unpacked(io.RawIOBase):
    """What a compressed stream holds, a piece at a time: no piece is larger than the buffer that asks for it."""

    def __init__(self, packed: BinaryIO, compression: str, meter: Meter) -> None:
        super().__init__()
        self.compression = compression
        self.meter = meter
        self._stream = pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), compression)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        try:
            data = self._stream.read(len(view))
        except OSError as failure:
            check_disk(failure)
            cut = "truncated" in str(failure).lower()
            what = "truncated: the {} data ends in the middle" if cut else "damaged: the {} data is wrong"
            raise BrokenFile(what.format(self.compression)) from None
        self.meter.unpack(len(data))
        view[: len(data)] = data
        return len(data)


def unpacked(raw: io.RawIOBase, compression: str | None, meter: Meter) -> BinaryIO:
    """A buffered stream of the content."""
    stream = io.BufferedReader(raw, BUFFER)
    if compression is None:
        return stream
    return cast(BinaryIO, io.BufferedReader(Unpacked(stream, compression, meter), BUFFER))
