"""From where files may come: the user's declaration in, yes or no to a host, an address or a store out."""

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path

from eos_assets.errors import EosError
from eos_assets.files.broken import Refused
from eos_assets.files.limits import Limits

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

DEFAULT_PORTS = {"http": 80, "https": 443}
ANY_PORT = 0
#: The name that means this machine wherever it is written.
LOCALHOST = "localhost"
NAT64 = ipaddress.ip_network("64:ff9b::/96")
#: Our own ways for these have rules that a driver does not know.
OWN_SCHEMES = {"file", "http", "https", "local"}


@dataclass(frozen=True)
class Host:
    """One declared host: a name or a network, and a port. Without a port: the scheme's own."""

    name: str
    network: Network | None
    port: int | None

    def matches(self, host: str, port: int, scheme: str) -> bool:
        if self.port != ANY_PORT and port != (self.port or DEFAULT_PORTS[scheme]):
            return False
        address = as_address(host)
        if address is not None and self.network is not None:
            return address in self.network
        return self.network is None and host == self.name


@dataclass(frozen=True)
class Access:
    """What is declared, and the limits. It travels to the workers."""

    root: Path | None = None
    hosts: tuple[Host, ...] = ()
    stores: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    @property
    def nowhere(self) -> bool:
        return self.root is None and not self.hosts and not self.stores

    def check_host(self, host: str, port: int, scheme: str) -> None:
        """Refuses a host that is not declared for this port."""
        if any(rule.matches(host, port, scheme) for rule in self.hosts):
            return
        raise Refused(f"host {host}, port {port} is not declared (EOS_FILES_HOSTS)")

    def check_address(self, host: str, text: str, port: int) -> Address:
        """Refuses an address that is not public, unless it is declared itself: a declared name says nothing about the
        machines inside that it may lead to. One that is declared with a port is open at that port alone."""
        address = as_address(text)
        assert address is not None
        inner = embedded(address)
        declared = any(
            rule.network is not None and inner in rule.network and rule.port in (None, ANY_PORT, port)
            for rule in self.hosts
        )
        if declared or (host == LOCALHOST and inner.is_loopback):
            return address
        site_local = isinstance(inner, ipaddress.IPv6Address) and inner.is_site_local
        if not inner.is_global or inner.is_multicast or inner.is_reserved or site_local:
            kind = "loopback" if inner.is_loopback else "link-local" if inner.is_link_local else "not public"
            raise Refused(f"{host} leads to {inner}, which is {kind} and not declared (EOS_FILES_HOSTS)")
        return address

    def check_store(self, url: str) -> None:
        if not any(url.startswith(prefix) for prefix in self.stores):
            raise Refused(f"{url.split(':', 1)[0]}: is no declared store (EOS_FILES_STORES)")


def as_address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def embedded(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that leads to it."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address.sixtofour or address
    return address


def host(text: str) -> Host:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:./]+)\]|([^:\[\]]+))(?::(\d{1,5}|\*))?", text)
    name = (match.group(1) or match.group(2)).lower() if match else ""
    port = None if not match or not match.group(3) else ANY_PORT if match.group(3) == "*" else int(match.group(3))
    try:
        return Host(name, ipaddress.ip_network(name, strict=False), port)
    except ValueError:
        if re.fullmatch(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", name) and not (port is not None and port > 65535):
            return Host(name, None, port)
    raise EosError(
        f"EOS_FILES_HOSTS names {text!r}, which is no host.",
        "List names, addresses or networks, each with a port if it is not the usual one: "
        "files.example.com, 10.1.0.0/16, 127.0.0.1:8080, [::1]:8080, files.example.com:*.",
    )


def store(text: str) -> str:
    scheme, colon, rest = text.partition("://")
    if not colon or not rest or "::" in text or scheme in OWN_SCHEMES:
        raise EosError(
            f"EOS_FILES_STORES names {text!r}, which is no store.",
            "List the beginnings of the addresses that may be fetched, such as s3://bucket/incoming/.",
        )
    return text if text.endswith("/") else f"{text}/"
