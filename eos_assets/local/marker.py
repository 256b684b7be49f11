"""The mark in the environment of every server of a stack, by which `eos down` finds all of its processes.

Children inherit it, and no record is needed, so processes are found that a crashed `eos up` had no time to record.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import psutil

from eos_assets.platform.server_process import ServerProcess

MARKER = "EOS_STACK"


def marker(home: Path) -> dict[str, str]:
    return {MARKER: str(home.resolve())}


def marked_processes(home: Path) -> list[psutil.Process]:
    """Every process that carries the mark of this home, except this one."""
    mark = marker(home)[MARKER]
    marked = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARKER) == mark:
                marked.append(process)
        except psutil.Error:
            continue
    return marked


def orphans(home: Path, kept: Iterable[ServerProcess]) -> list[psutil.Process]:
    """The marked processes that are neither a kept server nor a child of one."""
    family = set()
    for server in kept:
        family.add(server.pid)
        process = server.handle()
        family |= {child.pid for child in process.children(recursive=True)} if process else set()
    return [process for process in marked_processes(home) if process.pid not in family]
