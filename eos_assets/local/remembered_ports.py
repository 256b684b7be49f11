"""The ports that the next `eos up` takes again, so that clients and bookmarks stay valid over `eos down`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from eos_assets.platform.folders import write_atomically
from eos_assets.platform.settings import Settings


@dataclass(frozen=True)
class Ports:
    """The first port of the brokers, and the ports of Spark Connect, of the Dagster webserver and of the exporter."""

    kafka: int
    spark: int
    dagster: int
    exporter: int


class RememberedPorts:
    """The ports of the last `eos up` of one EOS_HOME, in a file."""

    def __init__(self, home: Path) -> None:
        self.path = home / "ports.json"

    def read(self) -> dict[str, int]:
        """The ports by kind of server; a kind that was never started is missing."""
        try:
            ports: dict[str, int] = json.loads(self.path.read_text())
        except OSError:
            return {}
        return ports

    def write(self, ports: Ports, *, dagster: bool, exporter: bool) -> None:
        """Remember these ports, those of Dagster and of the exporter only if they were started."""
        started = {"dagster": dagster, "exporter": exporter}
        chosen = {kind: port for kind, port in asdict(ports).items() if started.get(kind, True)}
        write_atomically(self.path, json.dumps({**self.read(), **chosen}))

    def choose(
        self,
        settings: Settings,
        *,
        kafka: int | None = None,
        spark: int | None = None,
        dagster: int | None = None,
        exporter: int | None = None,
    ) -> Ports:
        """The given port of each kind of server, else the one that is set, else the last one, else the default."""
        last = self.read()

        def port(kind: str, field: str) -> int:
            value: int = getattr(settings, field)
            return value if field in settings.model_fields_set else last.get(kind, value)

        return Ports(
            kafka or port("kafka", "kafka_port"),
            spark or port("spark", "spark_connect_port"),
            dagster or port("dagster", "dagster_port"),
            exporter or port("exporter", "exporter_port"),
        )
