"""Folders, files and locks below EOS_HOME, with an error that names the folder when the disk refuses."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from eos_assets.errors import EosError


@contextmanager
def explain_disk_errors(path: Path) -> Iterator[None]:
    """Raise an EosError that names the folder that cannot be written, and the reason."""
    try:
        yield
    except OSError as error:
        place = error.filename or path
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise EosError(
                f"No permission to write {place}: {error.strerror}.",
                "Give yourself write permission there, or set EOS_HOME to a folder that you own.",
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EosError(
                f"The disk that holds {place} is full.",
                "Free some space, or set EOS_HOME to a folder on another disk.",
            ) from error
        if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.ENOENT):
            raise EosError(
                f"{place} cannot be a folder: {error.strerror}.", "Set EOS_HOME to another folder."
            ) from error
        raise


def make_folder(path: Path) -> Path:
    """Create a folder if it does not exist, and check that it can be written."""
    with explain_disk_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return path


def write_atomically(path: Path, text: str) -> None:
    """Replace a file. A reader sees the old content or the new one, never a part of it, even after a crash."""
    with explain_disk_errors(path):
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        with draft.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)


@contextmanager
def hold_lock(path: Path, *, wait: bool, busy: str) -> Iterator[None]:
    """Hold a lock file, which contains the id of the process that holds it. The kernel frees it when that one dies."""
    make_folder(path.parent)
    lock = FileLock(path, blocking=wait)
    try:
        with explain_disk_errors(path):
            held = lock.acquire()
    except Timeout:
        holder = path.read_text().strip() or "unknown"
        raise EosError(f"{busy} (process {holder}).", f"Wait until it has ended, or end process {holder}.") from None
    with held:
        path.write_text(str(os.getpid()))
        yield
