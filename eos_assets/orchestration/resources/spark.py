"""The Spark session, through dagster-pyspark: in-process, Spark Connect or a cluster, by one setting."""

import os
import socket
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from dagster_pyspark import LazyPySparkResource
from dagster_pyspark.resources import spark_session_from_config
from pydantic import Field

from eos_assets.errors import EosError
from eos_assets.platform.java import find_java
from eos_assets.platform.loopback import LOOPBACK_HOSTS, bypass_proxy
from eos_assets.platform.running import RunningServers
from eos_assets.platform.setting_types import CONNECT_PORT, hide_token
from eos_assets.platform.settings import Settings
from eos_assets.platform.shipping import ship
from eos_assets.platform.spark_session import IN_PROCESS, session_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How long a Spark Connect server may take to accept a connection.
KNOCK_SECONDS = 5


class SparkResource(LazyPySparkResource):
    """A session that starts on first use. `spark_config` adds to the project's own configuration."""

    spark_config: dict[str, Any] = Field(default={}, description="More Spark settings; they win over the project's.")
    address: str = Field(default="", description="in-process, connect, spark://… or sc://…; default: EOS_SPARK.")

    def _init_session(self) -> None:
        if self._spark_session is None:
            settings = Settings.load()
            address = spark_address(settings, self.address)
            if not address.startswith("sc://"):
                find_java()  # a clear error instead of PySpark's
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run whatever the PATH has
                if settings.spark_python:
                    os.environ["PYSPARK_PYTHON"] = settings.spark_python
            elif urlsplit(address).hostname in LOOPBACK_HOSTS:
                bypass_proxy()
            session = started(address, {**session_config(address, settings), **self.spark_config})
            of_eos_up = address == RunningServers(settings.home).address_of("spark")  # that one runs this very code
            ship(session, address, settings, package=not of_eos_up)
            self._spark_session = session


def started(address: str, config: dict[str, Any]) -> "SparkSession":
    from pyspark.errors.utils import is_debugging_enabled

    be_quiet()
    try:
        knock(address)
        session: SparkSession = spark_session_from_config(config)
    except Exception as failure:
        why = (str(failure).splitlines() or [type(failure).__name__])[0]
        raise EosError(
            f"No Spark session at {hide_token(address.partition('/;')[0])}: {hide_token(why)}",
            "Check EOS_SPARK, and that it is reachable.",
        ) from failure
    is_debugging_enabled()  # PySpark decides once whether errors name the line of code: here a session is active
    return session


def knock(address: str) -> None:
    """A Spark Connect server that nobody reaches is told at once: PySpark would try again for minutes, in silence. One
    behind a proxy is left to PySpark."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    proxied = {"grpc", "https", "http"} & set(getproxies()) and not proxy_bypass(host)
    if parts.scheme == "sc" and not proxied:
        socket.create_connection((host, parts.port or CONNECT_PORT), KNOCK_SECONDS).close()


def be_quiet() -> None:
    """PySpark logs every error of a query with its Java stack before it raises it; what it means is told by us."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def spark_address(settings: Settings, wanted: str = "") -> str:
    """The address to use: the wanted one, else EOS_SPARK, else a running `eos up`, else in-process."""
    address = wanted or settings.spark or ""
    if address in ("", "connect"):
        running = RunningServers(settings.home).address_of("spark")
        if running is None and address == "connect":
            raise EosError("EOS_SPARK=connect, but no Spark Connect server runs here.", "Start one with `eos up`.")
        return running or IN_PROCESS
    if address == "in-process":
        return IN_PROCESS
    if address.startswith(("local", "spark://", "sc://", "yarn", "k8s://")):
        return address
    raise EosError(
        f"EOS_SPARK={hide_token(address)} is not an address of Spark.",
        "Use in-process, connect, local[*,4], spark://host:port or sc://host:port.",
    )
