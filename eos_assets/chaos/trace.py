"""What the processes of a soak write down as they go, so that it outlives them when they are killed."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUFFIX = ".trace.jsonl"


def write_event(folder: Path, event: str, **fields: object) -> None:
    """Append an event to the file of this process, by a single call that no signal divides."""
    line = json.dumps({"time": time.monotonic(), "event": event, **fields}) + "\n"
    file = os.open(folder / f"{os.getpid()}{SUFFIX}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def read_events(folder: Path) -> list[dict[str, Any]]:
    """The events of all processes in the order of time. The clock is that of the machine."""
    return sorted(all_events(folder), key=lambda event: event["time"])


def all_events(folder: Path) -> Iterator[dict[str, Any]]:
    for path in folder.glob(f"*{SUFFIX}"):
        for line in path.read_text().splitlines():
            yield json.loads(line)
