"""The unpacked stream of a compressed one, which stops at truncated data and at decompression bombs."""

import io
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa

from eos_assets.files.errors import FileError, reraise_system_error
from eos_assets.files.limits import Meter

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BUFFER_BYTES = 1 << 18


class UnpackedStream(io.RawIOBase):
    """The content of a compressed stream. Each read unpacks no more than the buffer that it fills."""

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
            reraise_system_error(failure)
            if "truncated" in str(failure).lower():
                raise FileError(f"truncated: the {self.compression} data ends in the middle") from None
            raise FileError(f"damaged: the {self.compression} data is not valid") from None
        self.meter.count_unpacked(len(data))
        view[: len(data)] = data
        return len(data)


def unpack(raw: io.RawIOBase, compression: str | None, meter: Meter) -> BinaryIO:
    """Return a buffered stream of the content."""
    stream = io.BufferedReader(raw, BUFFER_BYTES)
    if compression is None:
        return stream
    return cast(BinaryIO, io.BufferedReader(UnpackedStream(stream, compression, meter), BUFFER_BYTES))
