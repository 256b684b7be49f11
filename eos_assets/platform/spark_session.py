"""The Spark session of the settings: in-process, on Spark Connect or on a cluster."""

import os
import socket
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from eos_assets.errors import EosError
from eos_assets.platform.java import find_java
from eos_assets.platform.loopback import LOOPBACK_HOSTS, bypass_proxy
from eos_assets.platform.running import RunningServers
from eos_assets.platform.setting_types import CONNECT_PORT, hide_token
from eos_assets.platform.settings import Settings
from eos_assets.platform.shipping import ship
from eos_assets.platform.spark_config import IN_PROCESS, session_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The time that a Spark Connect server may take to accept a connection.
CONNECT_SECONDS = 5
#: How often a client of Spark Connect repeats a request that the server does not answer: for half a minute, instead of
#: PySpark's ten minutes. A server that was started again does not know the session anyway.
RETRIES, LONGEST_PAUSE_MS = 10, 4000


def start_session(settings: Settings, address: str = "", config: Mapping[str, Any] | None = None) -> "SparkSession":
    """Start a session, or return the active one.

    Args:
        settings: where Spark runs, and what is sent there.
        address: another address than that of the settings.
        config: Spark settings that override those of the project.
    """
    target = spark_address(settings, address)
    if not target.startswith("sc://"):
        find_java()  # raises a clearer error than PySpark
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # not the first one of the PATH
        if settings.spark_python:
            os.environ["PYSPARK_PYTHON"] = settings.spark_python
    elif urlsplit(target).hostname in LOOPBACK_HOSTS:
        bypass_proxy()
    session = create_session(target, {**session_config(target, settings), **(config or {})})
    local_server = target == RunningServers(settings.home).address_of("spark")  # it runs this very code
    ship(session, target, settings, package=not local_server)
    return session


def create_session(address: str, config: Mapping[str, Any]) -> "SparkSession":
    from pyspark.errors.utils import is_debugging_enabled
    from pyspark.sql import SparkSession

    silence_query_loggers()
    try:
        check_reachable(address)
        session = SparkSession.builder.config(map=dict(config)).getOrCreate()
    except Exception as failure:
        reason = (str(failure).splitlines() or [type(failure).__name__])[0]
        raise EosError(
            f"Spark session at {hide_token(address.partition('/;')[0])} failed to start: {hide_token(reason)}",
            "Check EOS_SPARK, and that its server is reachable.",
        ) from failure
    if address.startswith("sc://"):
        limit_retries(session)
    is_debugging_enabled()  # PySpark decides once whether errors name the line of code: here a session is active
    return session


def limit_retries(session: "SparkSession") -> None:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=LONGEST_PAUSE_MS)])


def check_reachable(address: str) -> None:
    """Raise immediately if a Spark Connect server is not reachable: PySpark would retry for minutes without a message.
    With a proxy, leave it to PySpark."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    proxied = {"grpc", "https", "http"} & set(getproxies()) and not proxy_bypass(host)
    if parts.scheme == "sc" and not proxied:
        socket.create_connection((host, parts.port or CONNECT_PORT), CONNECT_SECONDS).close()


def silence_query_loggers() -> None:
    """Switch off loggers of PySpark that log each error of a query with its Java stack, before it is raised."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def spark_address(settings: Settings, given: str = "") -> str:
    """The address to use: the given one, else EOS_SPARK, else that of a running `eos up`, else in-process."""
    address = given or settings.spark or ""
    if address in ("", "connect"):
        running = RunningServers(settings.home).serving_address("spark")
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
