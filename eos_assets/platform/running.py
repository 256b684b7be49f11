"""The servers that `eos up` recorded: how every other command, and every run, reaches them."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eos_assets.errors import EosError
from eos_assets.kafka.auth import DEFAULT_MECHANISM, Security
from eos_assets.platform.server_process import ServerProcess

#: The user of a secured local cluster who has every permission.
ADMIN = "admin"


@dataclass(frozen=True)
class Server:
    """One recorded server: its name, address, data folder and process."""

    name: str
    address: str
    data: Path
    process: ServerProcess

    @staticmethod
    def from_json(row: dict[str, Any]) -> "Server":
        process = ServerProcess(**{**row["process"], "log": Path(row["process"]["log"])})
        return Server(row["name"], row["address"], Path(row["data"]), process)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": "running" if self.process.is_alive() else "dead",
            "address": self.address,
            "pid": self.process.pid,
            "data": str(self.data),
            "log": str(self.process.log),
        }


class RunningServers:
    """The recorded servers of one EOS_HOME."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.record = home / "stack.json"
        self.kafka_folder = home / "kafka"

    def servers(self) -> list[Server]:
        """All recorded servers, including those that have died since."""
        try:
            rows = json.loads(self.record.read_text())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise EosError(f"{self.record} cannot be read: {error.strerror}.", "Set another EOS_HOME.") from error
        return [Server.from_json(row) for row in rows]

    def running(self) -> list[Server]:
        return [server for server in self.servers() if server.process.is_alive()]

    def serving_address(self, kind: str) -> str | None:
        """The address of the running servers of one kind; None if `eos up` started none. Servers that died are named in
        an error, unless the others are a majority and serve without them."""
        servers = [server for server in self.servers() if server.name.startswith(kind)]
        dead = [server for server in servers if not server.process.is_alive()]
        if dead and 2 * len(dead) >= len(servers):
            raise servers_died(dead)
        return self.address_of(kind)

    def address_of(self, kind: str) -> str | None:
        """The address of the running servers of one kind, `kafka` or `spark`; None if none is running."""
        addresses = [server.address for server in self.running() if server.name.startswith(kind)]
        return ",".join(addresses) or None

    def security(self) -> Security | None:
        """The administrator's credentials for the secured cluster of this home; None if the cluster is open."""
        folder = self.kafka_folder / "security"
        return administrator(folder) if os.path.exists(passwords_file(folder)) else None


def servers_died(dead: Iterable[Server]) -> EosError:
    return EosError(
        "; ".join(f"{server.name} died, see {server.process.log}" for server in dead) + ".",
        "Start it again with `eos up`, which keeps its data, or forget it with `eos down`.",
    )


def administrator(folder: Path) -> Security:
    """The administrator's credentials, from the folder with the certificates and passwords of a local cluster."""
    password = json.loads(passwords_file(folder).read_text())["admin"]
    return Security("SASL_SSL", DEFAULT_MECHANISM, ADMIN, password, authority=authority_file(folder).read_text())


def passwords_file(folder: Path) -> Path:
    return folder / "passwords.json"


def authority_file(folder: Path) -> Path:
    return folder / "ca.pem"
