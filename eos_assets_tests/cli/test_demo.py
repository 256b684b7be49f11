"""`eos demo` removes the folders of killed demos, and no others."""

import os
import subprocess
import sys
from pathlib import Path

from eos_assets.cli.demo import remove_leftovers


def test_only_the_folders_of_ended_demos_are_swept(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    for name in (f"{ended.pid}-abc", f"{os.getpid()}-abc", "notes-abc", "99999999999999999999-abc", "7"):
        (tmp_path / name).mkdir()
    remove_leftovers(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"{os.getpid()}-abc", "notes-abc", "99999999999999999999-abc", "7"}
