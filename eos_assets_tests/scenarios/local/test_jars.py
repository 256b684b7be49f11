"""Jars that are fetched over the network: the locked ones, all or none."""

import os
import signal
import subprocess
from pathlib import Path

from eos_assets.platform.jars import ensure_jars, find_damaged, read_lock
from eos_assets.platform.settings import Settings
from eos_assets_tests.cli.command import EOS
from eos_assets_tests.local.damage import damage
from eos_assets_tests.waiting import wait_for


def test_a_damaged_jar_is_detected_and_fetched_again(settings: Settings, copied: Settings) -> None:
    name = next(name for name in read_lock() if name.startswith("spark/delta-spark"))
    damage(copied, name)
    assert find_damaged(copied.jars_dir) == [name]
    fetched: list[int] = []
    ensured = ensure_jars("spark", copied.model_copy(update={"ivy_settings": settings.ivy_settings}), fetched.append)
    assert find_damaged(copied.jars_dir) == []
    assert fetched == list(range(1, len(read_lock()) + 1))
    assert [jar.parent.name for jar in ensured] == ["spark"] * len(ensured)


def test_a_killed_fetch_leaves_no_jars(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    env = {**os.environ, "EOS_JARS_DIR": str(folder)}
    with subprocess.Popen([*EOS, "jars"], env=env, stderr=subprocess.DEVNULL, start_new_session=True) as child:
        wait_for(lambda: list(tmp_path.glob(".jars.eos-fetch-*/cache/*/*/jars/*.jar")) or child.poll() is not None, 120)
        os.killpg(child.pid, signal.SIGKILL)  # Ivy too
    assert child.returncode == -signal.SIGKILL
    assert not folder.exists()
    assert len(find_damaged(folder)) == len(read_lock())
