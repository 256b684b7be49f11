"""Free space for the data of local servers."""

import os
import shutil
from pathlib import Path

from eos_assets.errors import EosError

#: Kafka preallocates about 10 MB of index files per partition; a demo does not fit into less than this.
NEEDED_BYTES = 1 << 30


def free_bytes(path: Path) -> int:
    """The free space on the disk that holds a path, which need not exist yet."""
    existing = next(p for p in (path, *path.parents) if os.path.exists(p))
    return shutil.disk_usage(existing).free


def require_space(path: Path, needed: int = NEEDED_BYTES) -> None:
    free = free_bytes(path)
    if free < needed:
        raise EosError(
            f"The disk that holds {path} is full: {free >> 20} MB free, {needed >> 20} MB needed.",
            "Free some space, or set EOS_HOME to a folder on another disk.",
        )
