"""Folders and locks: an error names the folder or the holder, without a stack trace."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from eos_assets.errors import EosError
from eos_assets.local.disk import free_bytes
from eos_assets.local.stack import Stack
from eos_assets.platform.folders import (
    explain_disk_errors,
    hold_lock,
    make_folder,
    write_atomically,
)
from eos_assets.platform.project import project_root
from eos_assets.platform.settings import Settings

NOBODY = 65534


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Root may write everywhere, so root becomes the user `nobody` for the test."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)


@pytest.fixture
def read_only(tmp_path: Path) -> Path:
    folder = tmp_path / "read-only"
    folder.mkdir()
    for parent in (folder, *folder.parents[:3]):  # the user `nobody` must be able to reach the folder
        parent.chmod(parent.stat().st_mode | 0o055)
    folder.chmod(0o555)
    return folder


def test_a_folder_without_write_permission_is_named(read_only: Path, unprivileged: None) -> None:
    with pytest.raises(EosError, match=r"No permission to write .*read-only") as error:
        make_folder(read_only / "home")
    assert "EOS_HOME" in error.value.remedy
    with pytest.raises(EosError, match=r"No permission to write .*read-only"):
        make_folder(read_only)


@pytest.fixture
def unreadable(tmp_path: Path) -> Iterator[Path]:
    """A path in a folder that the user `nobody` cannot read."""
    folder = tmp_path / "unreadable"
    folder.mkdir()
    folder.chmod(0)
    yield folder / "inside"
    folder.chmod(0o700)


def test_an_unreadable_folder_does_not_raise_a_stack_trace(
    settings: Settings, unreadable: Path, unprivileged: None
) -> None:
    with pytest.raises(EosError, match="is not a readable file"):
        Settings.load({"EOS_HOME": "/", "EOS_KAFKA_CA_FILE": str(unreadable)})
    assert free_bytes(unreadable) > 0
    assert project_root(unreadable) == unreadable
    stack = Stack(settings.model_copy(update={"home": unreadable}))
    assert stack.down() == 0
    assert stack.formatted_brokers() == 0
    assert stack.security() is None


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EosError, match="cannot be a folder"):
        make_folder(tmp_path / "file" / "home")


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(EosError, match=r"The disk that holds .* is full"), explain_disk_errors(tmp_path):
        Path("/dev/full").write_text("x")


def test_a_file_is_replaced_atomically(tmp_path: Path) -> None:
    write_atomically(tmp_path / "state", "one")
    write_atomically(tmp_path / "state", "two")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("state", "two")]


def test_a_held_lock_names_its_holder(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with (
        hold_lock(lock, wait=False, busy="Another one"),
        pytest.raises(EosError, match=rf"Another one \(process {os.getpid()}\)"),
        hold_lock(lock, wait=False, busy="Another one"),
    ):
        pass
    with hold_lock(lock, wait=False, busy="Another one"):
        pass
