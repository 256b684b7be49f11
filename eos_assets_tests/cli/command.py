"""`eos` as a user runs it: a process of its own."""

import os
import subprocess
import sys

EOS = [sys.executable, "-m", "eos_assets.cli"]


def eos(*args: str, status: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    """Run one command, and assert its exit status and that it prints no stack trace."""
    run = subprocess.run([*EOS, *args], env={**os.environ, **env}, capture_output=True, text=True, timeout=240)
    assert run.returncode == status, f"status {run.returncode}\n{run.stdout}\n{run.stderr}"
    assert "Traceback" not in run.stderr
    return run
