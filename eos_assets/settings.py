"""Environment variables in, one typed `Settings` out; an unknown or malformed one is refused by its name."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eos_assets.errors import EosError
from eos_assets.files.access import Access

PREFIX = "EOS_"

#: Every variable with its meaning: `eos settings` prints this table.
MEANINGS = {
    "EOS_HOME": "folder for jars, server data, logs and state; default: .eos in the project",
    "EOS_JARS_DIR": "folder of the jars; default: jars in EOS_HOME",
    "EOS_IVY_SETTINGS": "an Ivy settings file for a mirror or proxy; default: Ivy's own",
    "EOS_BOOTSTRAP_SERVERS": "the Kafka cluster to use; default: the one that `eos up` started",
    "EOS_SPARK": "where Spark runs: in-process (local[*,4]), connect (the server of `eos up`), spark://… or sc://…",
    "EOS_LAKE": "folder or address of the Delta tables; default: lake in EOS_HOME",
    "EOS_DAGSTER_PORT": "port of the Dagster webserver that `eos up` starts; default: 3000",
    "EOS_KAFKA_PORT": "first port of the brokers that `eos up` starts; each broker takes two; default: 9092",
    "EOS_SPARK_CONNECT_PORT": "port of the Spark Connect server that `eos up` starts; default: 15002",
    "EOS_FILES_ROOT": "folder below which `file:` references may lead; default: none, so no file: is followed",
    "EOS_FILES_HOSTS": "hosts that http(s) references may name: host, host:port, host:*, or networks; default: none",
    "EOS_FILES_STORES": "beginnings of other addresses to fetch through fsspec, such as s3://bucket/in/; default: none",
    "EOS_FILES_MAX_BYTES": "the largest file that is fetched; default: 4 GiB",
    "EOS_FILES_MAX_UNPACKED_BYTES": "the largest file after unpacking; default: 16 GiB",
    "EOS_FILES_MAX_RATIO": "how many times larger a file may become by unpacking; default: 200",
    "EOS_FILES_MAX_SECONDS": "how long fetching and reading one file may take; default: 600",
    "EOS_STACK": "set by `eos up` in the servers it starts, so that `eos down` finds exactly them",
}


@dataclass(frozen=True)
class Settings:
    """The settings of this process; `load` is the only reader of the environment."""

    home: Path
    jars_dir: Path
    ivy_settings: Path | None
    bootstrap_servers: str | None
    spark: str | None
    lake: str
    dagster_port: int
    kafka_port: int
    spark_connect_port: int
    files: Access

    @staticmethod
    def load(environ: Mapping[str, str] = os.environ) -> "Settings":
        refuse_unknown(environ)
        home = Path(environ.get("EOS_HOME") or project_root(Path.cwd()) / ".eos").absolute()
        ivy_settings = environ.get("EOS_IVY_SETTINGS")
        return Settings(
            home=home,
            jars_dir=Path(environ.get("EOS_JARS_DIR") or home / "jars").absolute(),
            ivy_settings=Path(ivy_settings).absolute() if ivy_settings else None,
            bootstrap_servers=environ.get("EOS_BOOTSTRAP_SERVERS") or None,
            spark=environ.get("EOS_SPARK") or None,
            lake=environ.get("EOS_LAKE") or str(home / "lake"),
            dagster_port=port(environ, "EOS_DAGSTER_PORT", 3000),
            kafka_port=port(environ, "EOS_KAFKA_PORT", 9092),
            spark_connect_port=port(environ, "EOS_SPARK_CONNECT_PORT", 15002),
            files=Access.load(environ),
        )


def refuse_unknown(environ: Mapping[str, str]) -> None:
    for name in environ:
        if name.startswith(PREFIX) and name not in MEANINGS:
            near = difflib.get_close_matches(name, MEANINGS, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise EosError(
                f"The environment variable {name} is not a setting of eos_assets.",
                f"{hint}`eos settings` lists all of them; unset {name}.",
            )


def port(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise EosError(f"{name}={text} is not a port.", f"Set {name} to a number from 1 to 65535, or unset it.")
    return int(text)


def project_root(folder: Path) -> Path:
    """The nearest folder above that holds a pyproject.toml, else the folder itself."""
    for candidate in (folder, *folder.parents):
        if (candidate / "pyproject.toml").is_file():
            return candidate
    return folder
