"""A URL of any other store in, its bytes out, through fsspec and the driver for its scheme."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from eos_assets.files.access import Access
from eos_assets.files.broken import BrokenFile, Refused, Unreachable
from eos_assets.files.limits import Meter
from eos_assets.files.source import Source

T = TypeVar("T")


@contextmanager
def open_store(url: str, access: Access, meter: Meter) -> Iterator[Source]:
    check_path(url)
    access.check_store(url)
    scheme = urlsplit(url).scheme
    try:
        import fsspec
    except ImportError:
        raise BrokenFile(f"{scheme}: needs fsspec and its driver, and fsspec is not installed") from None
    try:
        fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError) as failure:
        raise BrokenFile(f"{scheme}: has no driver here: {failure}") from None
    system, path = asked(lambda: fsspec.core.url_to_fs(url), meter)
    size = asked(lambda: system.info(path).get("size"), meter)
    if isinstance(size, int):
        meter.announce(size)
    opened = asked(lambda: system.open(path, "rb", block_size=1 << 20, cache_type="readahead"), meter)
    try:
        yield Source(lambda size: asked(lambda: bytes(opened.read(size)), meter))
    finally:
        with contextlib.suppress(BrokenFile):  # one that hangs is left as it is
            asked(opened.close, meter)


def asked(call: Callable[[], T], meter: Meter) -> T:
    """What the driver answers, as long as there is time. It may raise anything, and quote secrets: its type is told."""
    try:
        return in_time(call, meter)
    except BrokenFile:
        raise
    except FileNotFoundError:
        raise BrokenFile("not found") from None
    except Exception as failure:
        raise Unreachable(f"the store cannot be reached: {type(failure).__name__}") from None


def in_time(call: Callable[[], T], meter: Meter) -> T:
    """A driver knows nothing of our limit, so it is called in a thread that can be left behind."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as failure:
            answer.set_exception(failure)

    threading.Thread(target=run, name="eos-store", daemon=True).start()
    while not wait([answer], meter.remaining()).done:
        continue
    return answer.result()


def check_path(url: str) -> None:
    """A path that goes up, or an address inside an address, could leave what is declared."""
    rest = unquote(url.partition("://")[2])
    if "::" in url or ".." in re.split(r"[/?#]", rest):  # a driver may take ? and # as parts of the path
        raise Refused("the address goes up, or holds another one")
