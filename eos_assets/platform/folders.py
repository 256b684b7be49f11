"""Folders and files below EOS_HOME: made with clear errors, replaced whole or not at all, locked by one at a time."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eos_assets.errors import EosError

#: Kafka alone preallocates index files of some 10 MB per partition; below this a demo does not fit.
NEEDED_BYTES = 1 << 30


@contextmanager
def clear_disk_errors(path: Path) -> Iterator[None]:
    """Says which folder cannot be written, and why, instead of a stack trace."""
    try:
        yield
    except OSError as error:
        at = error.filename or path
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise EosError(
                f"No permission to write {at}: {error.strerror}.",
                "Give yourself write permission there, or set EOS_HOME to a folder that is yours.",
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EosError(
                f"The disk that holds {at} is full.",
                "Free some space, or set EOS_HOME to a folder on another disk.",
            ) from error
        if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.ENOENT):
            raise EosError(f"{at} cannot be a folder: {error.strerror}.", "Set EOS_HOME to another folder.") from error
        raise


def make_folder(path: Path) -> Path:
    with clear_disk_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return path


def free_bytes(path: Path) -> int:
    """Free space on the disk that holds `path`, which need not exist yet."""
    existing = next(p for p in (path, *path.parents) if os.path.exists(p))
    return shutil.disk_usage(existing).free


def require_space(path: Path, needed: int = NEEDED_BYTES) -> None:
    free = free_bytes(path)
    if free < needed:
        raise EosError(
            f"The disk that holds {path} is full: {free >> 20} MB free, {needed >> 20} MB needed.",
            "Free some space, or set EOS_HOME to a folder on another disk.",
        )


def write_whole(path: Path, text: str) -> None:
    """Readers see the old content or the new one, never half of it, also after a crash."""
    with clear_disk_errors(path):
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        with draft.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)


@contextmanager
def exclusive(path: Path, *, wait: bool, busy: str) -> Iterator[None]:
    """Holds the lock file `path`; the kernel frees it however its holder dies."""
    make_folder(path.parent)
    with clear_disk_errors(path):
        file = path.open("a+")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise EosError(
                f"{busy} (process {holder}).", f"Wait until it has ended, or end process {holder}."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
