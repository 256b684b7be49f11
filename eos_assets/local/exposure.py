"""Finds servers that other machines reach without encryption and without a login."""

import ipaddress
import socket
from collections.abc import Iterable, Iterator

import psutil

from eos_assets.kafka.connection import Connection
from eos_assets.platform.running import Server


def exposed_servers(servers: Iterable[Server], *, secured: bool) -> list[str]:
    """The servers of `eos up` that listen beyond loopback. None of them but a secured Kafka has a login."""
    return [
        f"{server.name} listens at {address}"
        for server in servers
        if not (secured and server.name.startswith("kafka"))
        for address in listening_addresses(server)
        if not is_loopback(address.rpartition(":")[0])
    ]


def listening_addresses(server: Server) -> Iterator[str]:
    """Where a server and its child processes accept connections."""
    process = server.process.handle()
    try:
        family = [process, *process.children(recursive=True)] if process else []
        for member in family:
            for connection in member.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN:
                    yield f"{connection.laddr.ip}:{connection.laddr.port}"
    except psutil.Error:
        return  # it has just ended, or belongs to another user


def exposed_brokers(connection: Connection) -> list[str]:
    """The addresses of an open cluster beyond loopback."""
    if connection.security.protocol != "PLAINTEXT":
        return []
    brokers = connection.metadata().brokers.values()
    return [f"{each.host}:{each.port}" for each in brokers if not is_loopback(str(each.host))]


def is_loopback(host: str) -> bool:
    """Whether a host is this machine alone. A name counts if all its addresses do."""
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(is_loopback_address(address) for address in addresses)


def is_loopback_address(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)  # what a Java server reports
    return (mapped or address).is_loopback
