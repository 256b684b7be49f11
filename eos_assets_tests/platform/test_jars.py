"""Jars: fetched once, accepted only if they match the lock, replaced all or none."""

from pathlib import Path

import pytest

from eos_assets.errors import EosError
from eos_assets.platform.jars import ensure_jars, find_damaged, install, read_lock, version_of
from eos_assets.platform.settings import Settings
from eos_assets_tests.local.damage import damage


def test_the_second_time_needs_no_network(copied: Settings) -> None:
    ensured = ensure_jars("broker", copied)
    assert any(jar.name == f"kafka_2.13-{version_of('kafka_2.13')}.jar" for jar in ensured)
    assert all(jar.is_file() for jar in ensured)


def test_a_jar_that_the_mirror_lacks_is_named_and_the_others_stay(copied: Settings) -> None:
    name = next(iter(read_lock()))
    damage(copied, name)
    with pytest.raises(EosError, match="jars could not be fetched") as error:
        ensure_jars("broker", copied)
    assert "mirror.xml" in error.value.remedy
    assert find_damaged(copied.jars_dir) == [name]


def test_new_jars_leave_other_files_in_their_folder(tmp_path: Path) -> None:
    for jar in ("draft/broker/new.jar", "draft/spark/new.jar", "jars/broker/old.jar", "jars/mine.txt"):
        (tmp_path / jar).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / jar).touch()
    install(tmp_path / "draft", tmp_path / "jars")
    assert sorted(str(path.relative_to(tmp_path / "jars")) for path in (tmp_path / "jars").rglob("*.*")) == [
        "broker/new.jar",
        "mine.txt",
        "spark/new.jar",
    ]


def test_missing_ivy_settings_are_named(copied: Settings, tmp_path: Path) -> None:
    damage(copied, next(iter(read_lock())))
    with pytest.raises(EosError, match="is not a file"):
        ensure_jars("broker", copied.model_copy(update={"ivy_settings": tmp_path / "absent.xml"}))
