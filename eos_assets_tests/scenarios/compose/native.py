"""Runs the services of compose.yaml without containers: the same commands, environments and health checks as processes.

It replaces a container engine: a host name becomes loopback, a port of a service becomes a free one, a volume becomes a
folder, and the images of Kafka and PostgreSQL become the steps of their entry points. Prometheus and Grafana are
left out.
"""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import psutil

from eos_assets.local.ports import ReservedPort
from eos_assets.platform.jars import ensure_jars, version_of
from eos_assets.platform.java import find_java
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.settings import Settings
from eos_assets_tests.docker.compose_file import ROOT, services
from eos_assets_tests.waiting import wait_for

START_SECONDS = 180
#: Variables that the official Kafka image keeps for itself.
NOT_PROPERTIES = {"KAFKA_HEAP_OPTS"}
#: Images whose programs no package of the distribution has.
LEFT_OUT = ("prom/", "grafana/")


def postgres_folder() -> Path | None:
    """The folder in which Debian's packages install PostgreSQL, or None."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return programs[-1].parent if programs else None


class Native:
    """All services, started in the order of their dependencies and stopped together."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.services = {name: s for name, s in services().items() if not s["image"].startswith(LEFT_OUT)}
        self.ports: dict[tuple[str, str], ReservedPort] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.database = Path(tempfile.mkdtemp(prefix="eos-postgres-"))
        home = folder / "dagster-home"
        home.mkdir()
        shutil.copy(ROOT / "docker" / "dagster.yaml", home)
        self.paths = {
            "/opt/eos/dagster": home,
            "/opt/eos/workspace.yaml": ROOT / "workspace.yaml",
            "/opt/eos/jars": settings.jars_dir,
        }
        mounts = [mount.split(":") for service in self.services.values() for mount in service.get("volumes", ())]
        shared = {path: volume for volume, path in mounts if len({v for v, p in mounts if p == path}) == 1}
        self.paths |= {path: self.volume(volume) for path, volume in shared.items()}

    def volume(self, name: str) -> Path:
        folder = self.folder / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def port(self, service: str, number: str) -> str:
        if (service, number) not in self.ports:
            self.ports[service, number] = ReservedPort()
        return str(self.ports[service, number].number)

    def localize(self, service: str, text: str) -> str:
        """Replace paths, hosts and ports in one word of a command or environment by those of this machine."""
        own = {path: self.volume(name) for name, path in self.mounts(service)}
        for path, folder in sorted({**self.paths, **own}.items(), key=lambda item: -len(item[0])):
            text = text.replace(path, str(folder))
        text = text.replace("/var/lib/eos", str(self.container(service)))
        hosts = "|".join([*map(re.escape, self.services), r"0\.0\.0\.0", r"127\.0\.0\.1"])

        def local(match: re.Match[str]) -> str:
            host = match["host"] if match["host"] in self.services else service
            return f"{LOOPBACK}{match['sign']}{self.port(host, match['port'])}"

        text = re.sub(rf"\b(?P<host>{hosts})(?P<sign>[:/])(?P<port>\d+)\b", local, text)
        return LOOPBACK if re.fullmatch(hosts, text) else text

    def mounts(self, service: str) -> list[tuple[str, str]]:
        return [tuple(mount.split(":")) for mount in self.services[service].get("volumes", ())]

    def container(self, service: str) -> Path:
        """The writable layer of a container."""
        folder = self.folder / "containers" / service
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def command(self, service: str, words: list[str]) -> list[str]:
        local = [self.localize(service, word) for word in words]
        for index, word in enumerate(words[:-1]):
            if word in ("--port", "--webui-port"):
                local[index + 1] = self.port(service, words[index + 1])
        return local

    def environment(self, service: str) -> dict[str, str]:
        variables = self.services[service].get("environment", {}).items()
        declared = {name: "" if value is None else str(value) for name, value in variables}  # an empty default
        local = {name: self.localize(service, value) for name, value in declared.items()}
        if "DAGSTER_POSTGRES_PORT" in local:
            local["DAGSTER_POSTGRES_PORT"] = self.port("postgres", declared["DAGSTER_POSTGRES_PORT"])
        keep = {
            name: value for name, value in os.environ.items() if not name.startswith(("EOS_", "DAGSTER_", "PYSPARK"))
        }
        path = f"{ROOT / '.venv' / 'bin'}:{postgres_folder()}:{os.environ['PATH']}"
        return {**keep, "PATH": path, "PGPORT": self.port("postgres", "5432"), **local}

    def up(self) -> None:
        """Start every service once those that it depends on are healthy, or have ended without an error."""
        started: set[str] = set()
        while len(started) < len(self.services):
            ready = [n for n in self.services if n not in started and set(self.depends_on(n)) <= started]
            assert ready, "a cycle of dependencies"
            for name in ready:
                self.start(name)
            for name in ready:
                self.await_healthy(name)
            started |= set(ready)

    def depends_on(self, service: str) -> dict[str, dict[str, str]]:
        dependencies: dict[str, dict[str, str]] = self.services[service].get("depends_on", {})
        return dependencies

    def start(self, service: str) -> None:
        image = self.services[service]["image"]
        if image.startswith("apache/kafka:"):
            assert image == f"apache/kafka:{version_of('kafka_2.13')}", "the version that is tested"
            command, user = self.kafka(service), None
        elif image.startswith("postgres:"):
            command, user = self.postgres(service)
        else:
            command, user = self.command(service, self.services[service]["command"]), None
        with (self.folder / f"{service}.log").open("wb") as log:
            self.processes[service] = subprocess.Popen(
                command,
                cwd=self.database if user else self.container(service),
                env=self.environment(service),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=user,
            )

    def kafka(self, service: str) -> list[str]:
        """The steps of the official image: KAFKA_A_B=c becomes a.b=c, the storage is formatted, the broker started."""
        environment = self.environment(service)
        properties = {
            name.removeprefix("KAFKA_").replace("_", ".").lower(): value
            for name, value in environment.items()
            if name.startswith("KAFKA_") and name not in NOT_PROPERTIES
        }
        file = self.container(service) / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        classpath = ":".join(str(jar) for jar in ensure_jars("broker", self.settings))
        java = [str(find_java().executable), environment["KAFKA_HEAP_OPTS"], "-cp", classpath]
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={environment['CLUSTER_ID']}", "-c", str(file)]
        subprocess.run([*java, *tool], check=True, capture_output=True)
        return [*java, "kafka.Kafka", str(file)]

    def postgres(self, service: str) -> tuple[list[str], str | None]:
        """The steps of the official image: create a database and its owner. PostgreSQL refuses to run as root."""
        environment, folder = self.environment(service), postgres_folder()
        assert folder is not None
        user = unprivileged() if os.geteuid() == 0 else None
        if user:
            shutil.chown(self.database, user)
        password = self.database / "password"
        password.write_text(environment["POSTGRES_PASSWORD"])
        password.chmod(0o644)
        data = str(self.database / "data")
        owner = ["--username", environment["POSTGRES_USER"], "--auth", "scram-sha-256", "--pwfile", str(password)]
        subprocess.run(
            [str(folder / "initdb"), "-D", data, *owner], cwd=self.database, user=user, check=True, capture_output=True
        )
        assert environment["POSTGRES_DB"] == environment["POSTGRES_USER"]
        create = f'CREATE DATABASE "{environment["POSTGRES_DB"]}";\n'
        single = [str(folder / "postgres"), "--single", "-D", data, "postgres"]
        subprocess.run(single, input=create.encode(), cwd=self.database, user=user, check=True, capture_output=True)
        port = self.port(service, "5432")
        where = ["-c", f"listen_addresses={LOOPBACK}", "-c", f"unix_socket_directories={self.database}", "-p", port]
        return [str(folder / "postgres"), "-D", data, *where], user

    def await_healthy(self, service: str) -> None:
        """Wait for the service's own health check; a service without one must end without an error."""
        process, check = self.processes[service], self.services[service]["healthcheck"]
        if check.get("disable"):
            assert process.wait(START_SECONDS) == 0, self.log(service)
            return
        kind, *words = check["test"]
        assert kind == "CMD"

        def healthy() -> bool:
            assert process.poll() is None, self.log(service)
            return self.run(service, *words).returncode == 0

        wait_for(healthy, START_SECONDS)

    def run(self, service: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a service, as `docker compose exec` does."""
        return subprocess.run(
            self.command(service, list(words)),
            cwd=self.container(service),
            env=self.environment(service),
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
        )

    def log(self, service: str) -> str:
        return (self.folder / f"{service}.log").read_text(errors="replace")[-4000:]

    def down(self) -> None:
        """Stop every started process and its children."""
        family: list[psutil.Process] = []
        for process in self.processes.values():
            if process.poll() is None:
                family += [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for member in family:
            if member.is_running():
                member.terminate()
        _, remaining = psutil.wait_procs(family, 20)
        for member in remaining:
            member.kill()
        for process in self.processes.values():
            process.wait(20)
        for port in self.ports.values():
            port.release()
        shutil.rmtree(self.database, ignore_errors=True)


def unprivileged() -> str:
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
