"""Java: found as Spark finds it, and refused with a remedy if it cannot run the servers."""

from pathlib import Path

import pytest

from eos_assets.errors import EosError
from eos_assets.platform.java import find_java, major


def fake_java(folder: Path, text: str, status: int = 0) -> Path:
    """A script instead of another version of Java, which not every machine has."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit {status}\n")
    executable.chmod(0o755)
    return folder


def test_the_java_of_this_machine_is_usable() -> None:
    java = find_java()
    assert major(java.version) in (17, 21)
    assert (java.home / "bin" / "java").exists()


def test_without_java_the_remedy_names_the_versions(tmp_path: Path) -> None:
    with pytest.raises(EosError, match=r"No Java in the PATH[\s\S]*Install Java 17 or 21"):
        find_java({"PATH": str(tmp_path)})


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(EosError, match="No Java in JAVA_HOME="):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "25"])
def test_a_wrong_version_is_named(tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path, f'openjdk version "{version}" 2024-01-01')
    with pytest.raises(EosError, match=f"Java {version}"):
        find_java({"JAVA_HOME": str(home)})


def test_the_output_of_a_failing_java_is_quoted(tmp_path: Path) -> None:
    home = fake_java(tmp_path, "cannot allocate memory", status=1)
    with pytest.raises(EosError, match="cannot allocate memory"):
        find_java({"JAVA_HOME": str(home)})


@pytest.mark.parametrize(("version", "expected"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("22-ea", 22)])
def test_the_major_version_is_read(version: str, expected: int) -> None:
    assert major(version) == expected
