"""The Spark session as a Dagster resource: in-process, Spark Connect or a cluster, chosen by one setting."""

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

#: The time that a Spark Connect server may take to accept a connection.
CONNECT_SECONDS = 5


class SparkResource(LazyPySparkResource):
    """A session that starts when it is first used."""

    spark_config: dict[str, Any] = Field(default={}, description="Spark settings that override those of the project.")
    address: str = Field(default="", description="in-process, connect, spark://… or sc://…; default: EOS_SPARK.")

    def _init_session(self) -> None:
        if self._spark_session is None:
            settings = Settings.load()
            address = spark_address(settings, self.address)
            if not address.startswith("sc://"):
                find_java()  # raises a clearer error than PySpark
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # not the first one of the PATH
                if settings.spark_python:
                    os.environ["PYSPARK_PYTHON"] = settings.spark_python
            elif urlsplit(address).hostname in LOOPBACK_HOSTS:
                bypass_proxy()
            session = start_session(address, {**session_config(address, settings), **self.spark_config})
            local_server = address == RunningServers(settings.home).address_of("spark")  # it runs this very code
            ship(session, address, settings, package=not local_server)
            self._spark_session = session


def start_session(address: str, config: dict[str, Any]) -> "SparkSession":
    from pyspark.errors.utils import is_debugging_enabled

    silence_query_loggers()
    try:
        check_reachable(address)
        session: SparkSession = spark_session_from_config(config)
    except Exception as failure:
        reason = (str(failure).splitlines() or [type(failure).__name__])[0]
        raise EosError(
            f"Spark session at {hide_token(address.partition('/;')[0])} failed to start: {hide_token(reason)}",
            "Check EOS_SPARK, and that its server is reachable.",
        ) from failure
    is_debugging_enabled()  # PySpark decides once whether errors name the line of code: here a session is active
    return session


def check_reachable(address: str) -> None:
    """Raise immediately if a Spark Connect server is not reachable: PySpark would retry for minutes without a message.
    Behind a proxy, leave it to PySpark."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    proxied = {"grpc", "https", "http"} & set(getproxies()) and not proxy_bypass(host)
    if parts.scheme == "sc" and not proxied:
        socket.create_connection((host, parts.port or CONNECT_PORT), CONNECT_SECONDS).close()


def silence_query_loggers() -> None:
    """PySpark logs every error of a query with its Java stack before it raises it. Our errors state what it means."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def spark_address(settings: Settings, given: str = "") -> str:
    """The address to use: the given one, else EOS_SPARK, else that of a running `eos up`, else in-process."""
    address = given or settings.spark or ""
    if address in ("", "connect"):
        running = RunningServers(settings.home).address_of("spark")
        if running is None and address == "connect":
            raise EosError("EOS_SPARK=connect, but no Spark Connect server is running.", "Start one with `eos up`.")
        return running or IN_PROCESS
    if address == "in-process":
        return IN_PROCESS
    if address.startswith(("local", "spark://", "sc://", "yarn", "k8s://")):
        return address
    raise EosError(
        f"EOS_SPARK={hide_token(address)} is not an address of Spark.",
        "Use in-process, connect, local[*,4], spark://host:port or sc://host:port.",
    )
