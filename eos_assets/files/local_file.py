"""A `file:` URL in, a function that reads the file out; refused unless it lies below the declared root."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from eos_assets.files.access import LOCALHOST, Access
from eos_assets.files.broken import BrokenFile, Refused
from eos_assets.files.limits import Meter
from eos_assets.files.source import Source

#: A link or a pipe in the place of the file must neither be followed nor waited for.
FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def open_local(url: str, access: Access, meter: Meter) -> Iterator[Source]:
    handle = opened(path_of(url), access.root)
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise Refused("it is no regular file")
        meter.announce(about.st_size)
        yield Source(lambda size: os.read(handle, size))
    finally:
        os.close(handle)


def path_of(url: str) -> Path:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc not in ("", LOCALHOST):
        raise Refused(f"a file: URL of another machine, {parts.netloc}")
    if not path.startswith("/") or "\0" in path or parts.query or parts.fragment:
        raise Refused("a file: URL must hold an absolute path and nothing else")
    return Path(path)


def opened(path: Path, root: Path | None) -> int:
    """The descriptor of a file below the root. The real path is walked folder by folder without following a link, so
    nothing that changes between the check and the opening leads outside."""
    if root is None:
        raise Refused("no folder is declared for files (EOS_FILES_ROOT)")
    try:
        base = root.resolve(strict=True)
    except OSError as failure:
        raise PermissionError(f"EOS_FILES_ROOT={root} cannot be read: {failure.strerror}") from failure
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # a name that is too long, a link that leads to itself
        raise BrokenFile("not found: the path leads nowhere") from None
    if base not in real.parents:
        raise Refused("the file is outside the declared root (EOS_FILES_ROOT)")
    *folders, name = real.relative_to(base).parts
    try:
        handle = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
        for folder in folders:
            inner = step(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY, handle)
            handle = inner
        return step(name, FLAGS, handle)
    except FileNotFoundError:
        raise BrokenFile("not found") from None
    except OSError as failure:
        raise BrokenFile(f"cannot be opened: {failure.strerror}") from None


def step(name: str, flags: int, folder: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)
