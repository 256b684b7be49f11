"""A URL of any other store in, a function that reads the file out, through fsspec and the driver for its scheme."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from eos_assets.files.access import Access
from eos_assets.files.broken import BrokenFile, Refused, Unreachable
from eos_assets.files.limits import Meter
from eos_assets.files.source import Source


@contextmanager
def open_store(url: str, access: Access, meter: Meter) -> Iterator[Source]:
    check_path(url)
    access.check_store(url)
    try:
        import fsspec
    except ImportError:
        raise BrokenFile(f"{urlsplit(url).scheme}: needs fsspec and its driver, and fsspec is not installed") from None
    try:
        system, path = fsspec.core.url_to_fs(url)
        size = system.info(path).get("size")
        if size is not None:
            meter.announce(int(size))
        opened = system.open(path, "rb", block_size=1 << 20, cache_type="readahead")
    except (ImportError, ValueError) as failure:
        raise BrokenFile(f"{urlsplit(url).scheme}: has no driver here: {failure}") from None
    except FileNotFoundError:
        raise BrokenFile("not found") from None
    except OSError as failure:
        raise Unreachable(f"the store cannot be reached: {failure.strerror or type(failure).__name__}") from None
    with opened:

        def read(size: int) -> bytes:
            try:
                return bytes(opened.read(size))
            except OSError as failure:
                raise Unreachable(f"the store ended in the middle: {type(failure).__name__}") from None

        yield Source(read)


def check_path(url: str) -> None:
    """A path that goes up, or an address inside an address, could leave what is declared."""
    rest = unquote(url.partition("://")[2])
    if "::" in url or ".." in re.split(r"[/?#]", rest):  # a driver may take ? and # as parts of the path
        raise Refused("the address goes up, or holds another one")
