"""Jars: fetched once, believed only when they match the lock, replaced whole or not at all."""

import os
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from eos_assets.errors import EosError
from eos_assets.local.jars import damaged, install, jars, locked, version_of
from eos_assets.settings import Settings
from eos_assets_tests.cli.command import EOS
from eos_assets_tests.waiting import wait_for

#: An Ivy settings file of a mirror that has nothing: whoever asks it needs the network and fails.
EMPTY_MIRROR = """\
<ivysettings>
  <settings defaultResolver="mirror"/>
  <resolvers>
    <filesystem name="mirror"><artifact pattern="{folder}/[artifact]-[revision].[ext]"/></filesystem>
  </resolvers>
</ivysettings>
"""


@pytest.fixture
def copied(settings: Settings, tmp_path: Path) -> Settings:
    """A copy of the jars that a test may damage, and a mirror that has nothing."""
    shutil.copytree(settings.jars_dir, tmp_path / "jars", copy_function=os.link)
    (tmp_path / "mirror.xml").write_text(EMPTY_MIRROR.format(folder=tmp_path / "nothing"))
    return replace(settings, jars_dir=tmp_path / "jars", ivy_settings=tmp_path / "mirror.xml")


def damage(settings: Settings, name: str) -> None:
    jar = settings.jars_dir / name
    content = bytearray(jar.read_bytes())
    content[len(content) // 2] ^= 1
    jar.unlink()  # a hard link: the original stays whole
    jar.write_bytes(content)


def test_the_second_time_needs_no_network(copied: Settings) -> None:
    found = jars("broker", copied)
    assert any(jar.name == f"kafka_2.13-{version_of('kafka_2.13')}.jar" for jar in found)
    assert all(jar.is_file() for jar in found)


def test_a_damaged_jar_is_noticed_and_fetched_again(settings: Settings, copied: Settings) -> None:
    name = next(name for name in locked() if name.startswith("spark/delta-spark"))
    damage(copied, name)
    assert damaged(copied.jars_dir) == [name]
    fetched: list[int] = []
    jars_now = jars("spark", replace(copied, ivy_settings=settings.ivy_settings), fetched.append)
    assert damaged(copied.jars_dir) == []
    assert fetched == list(range(1, len(locked()) + 1))
    assert [jar.parent.name for jar in jars_now] == ["spark"] * len(jars_now)


def test_what_a_mirror_lacks_is_named_and_the_rest_stays(copied: Settings) -> None:
    name = next(iter(locked()))
    damage(copied, name)
    with pytest.raises(EosError, match="jars could not be fetched") as error:
        jars("broker", copied)
    assert "mirror.xml" in error.value.remedy
    assert damaged(copied.jars_dir) == [name]


def test_new_jars_leave_what_else_is_in_their_folder(tmp_path: Path) -> None:
    for jar in ("draft/broker/new.jar", "draft/spark/new.jar", "jars/broker/old.jar", "jars/mine.txt"):
        (tmp_path / jar).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / jar).touch()
    install(tmp_path / "draft", tmp_path / "jars")
    assert sorted(str(path.relative_to(tmp_path / "jars")) for path in (tmp_path / "jars").rglob("*.*")) == [
        "broker/new.jar",
        "mine.txt",
        "spark/new.jar",
    ]


def test_ivy_settings_that_are_no_file_are_named(copied: Settings, tmp_path: Path) -> None:
    damage(copied, next(iter(locked())))
    with pytest.raises(EosError, match="is not a file"):
        jars("broker", replace(copied, ivy_settings=tmp_path / "absent.xml"))


def test_a_killed_fetch_does_not_count(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    env = {**os.environ, "EOS_JARS_DIR": str(folder)}
    with subprocess.Popen([*EOS, "jars"], env=env, stderr=subprocess.DEVNULL, start_new_session=True) as child:
        wait_for(lambda: list(tmp_path.glob(".jars.eos-fetch-*/cache/*/*/jars/*.jar")) or child.poll() is not None, 120)
        os.killpg(child.pid, signal.SIGKILL)  # Ivy too
    assert child.returncode == -signal.SIGKILL
    assert not folder.exists()
    assert len(damaged(folder)) == len(locked())
