"""Files of all other stores, through fsspec and its driver for the scheme."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from eos_assets.files.access import Access
from eos_assets.files.download import Download
from eos_assets.files.errors import AccessDenied, FileError, StoreUnavailable
from eos_assets.files.limits import Meter

Answer = TypeVar("Answer")


@contextmanager
def open_store(url: str, access: Access, meter: Meter) -> Iterator[Download]:
    check_path(url)
    access.check_store(url)
    fsspec = load_driver(urlsplit(url).scheme)
    system, path = call_driver(lambda: fsspec.core.url_to_fs(url), meter)
    size = call_driver(lambda: system.info(path).get("size"), meter)
    if isinstance(size, int):
        meter.check_size(size)
    file = call_driver(lambda: system.open(path, "rb", block_size=1 << 20, cache_type="readahead"), meter)
    try:
        yield Download(lambda size: call_driver(lambda: bytes(file.read(size)), meter), meter)
    finally:
        with contextlib.suppress(FileError):  # a close that hangs is abandoned
            call_driver(file.close, meter)


def check_path(url: str) -> None:
    """Deny a path with `..` and a chained URL, because both could leave the declared store."""
    rest = unquote(url.partition("://")[2])
    if "::" in url or ".." in re.split(r"[/?#]", rest):  # a driver may take ? and # as parts of the path
        raise AccessDenied("the address contains `..` or another address")


def load_driver(scheme: str) -> Any:
    """Import fsspec, and check that it has a driver for the scheme."""
    try:
        import fsspec
    except ImportError:
        raise FileError(f"{scheme}: needs fsspec and its driver, and fsspec is not installed") from None
    try:
        fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError) as failure:
        raise FileError(f"{scheme}: has no installed driver: {failure}") from None
    return fsspec


def call_driver(call: Callable[[], Answer], meter: Meter) -> Answer:
    """Call the driver within the time limit. Its errors may quote secrets, so only their type is reported."""
    try:
        return call_in_time(call, meter)
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError("not found") from None
    except Exception as failure:
        raise StoreUnavailable(f"the store cannot be reached: {type(failure).__name__}") from None


def call_in_time(call: Callable[[], Answer], meter: Meter) -> Answer:
    """Call in a thread that is abandoned at the time limit, which the driver does not know."""
    answer: Future[Answer] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as failure:
            answer.set_exception(failure)

    threading.Thread(target=run, name="eos-store", daemon=True).start()
    while not wait([answer], meter.remaining()).done:
        continue  # until it answers, or `remaining` raises at the limit
    return answer.result()
