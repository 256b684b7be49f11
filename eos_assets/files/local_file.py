"""Files of `file:` URLs, below the declared folder only."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from eos_assets.files.access import LOCALHOST, Access
from eos_assets.files.download import Download
from eos_assets.files.errors import AccessDenied, FileError
from eos_assets.files.limits import Meter

#: A symbolic link in the place of the file is not followed, and the writer of a pipe not awaited.
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
FOLDER_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY


@contextmanager
def open_local(url: str, access: Access, meter: Meter) -> Iterator[Download]:
    descriptor = open_below(path_of(url), access.root)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise AccessDenied("not a regular file")
        meter.check_size(status.st_size)
        yield Download(lambda size: os.read(descriptor, size), meter)
    finally:
        os.close(descriptor)


def path_of(url: str) -> Path:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc not in ("", LOCALHOST):
        raise AccessDenied(f"a file: URL of another machine, {parts.netloc}")
    if not path.startswith("/") or "\0" in path or parts.query or parts.fragment:
        raise AccessDenied("a file: URL must contain an absolute path and nothing else")
    return Path(path)


def open_below(path: Path, root: Path | None) -> int:
    """Open a file below the root, and return its descriptor.

    The resolved path is opened folder by folder without following a link, so a change between the check and the
    opening cannot lead outside.
    """
    base, real = resolve(path, root)
    *folders, name = real.relative_to(base).parts
    try:
        descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
        for folder in folders:
            descriptor = open_in(descriptor, folder, FOLDER_FLAGS)
        return open_in(descriptor, name, FILE_FLAGS)
    except FileNotFoundError:
        raise FileError("not found") from None
    except OSError as failure:
        raise FileError(f"cannot be opened: {failure.strerror}") from None


def resolve(path: Path, root: Path | None) -> tuple[Path, Path]:
    """The real paths of the root and of the file; raise if the file is outside."""
    if root is None:
        raise AccessDenied("no folder is declared for files (EOS_FILES_ROOT)")
    try:
        base = root.resolve(strict=True)
    except OSError as failure:
        raise PermissionError(f"EOS_FILES_ROOT={root} cannot be read: {failure.strerror}") from failure
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # a name that is too long, or a link to itself
        raise FileError("not found: the path cannot be resolved") from None
    if base not in real.parents:
        raise AccessDenied("the file is outside the declared folder (EOS_FILES_ROOT)")
    return base, real


def open_in(folder: int, name: str, flags: int) -> int:
    """Open an entry of an open folder, and close the folder."""
    try:
        return os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)
