"""Where files may be fetched from: the declared folder, hosts and stores, and the checks against them."""

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path

from eos_assets.errors import EosError
from eos_assets.files.errors import AccessDenied
from eos_assets.files.limits import Limits

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

DEFAULT_PORTS = {"http": 80, "https": 443}
ANY_PORT = 0
MAX_PORT = 65535
#: The name of this machine.
LOCALHOST = "localhost"
NAT64 = ipaddress.ip_network("64:ff9b::/96")
#: Schemes with checks of their own, which a driver of fsspec would bypass.
BUILT_IN_SCHEMES = {"file", "http", "https", "local"}


@dataclass(frozen=True)
class Host:
    """A declared name or network, and its port. Without a port, it is the default one of the scheme."""

    name: str
    network: Network | None
    port: int | None

    def matches(self, host: str, port: int, scheme: str) -> bool:
        if self.port != ANY_PORT and port != (self.port or DEFAULT_PORTS[scheme]):
            return False
        address = parse_address(host)
        if address is not None and self.network is not None:
            return address in self.network
        return self.network is None and host == self.name


@dataclass(frozen=True)
class Access:
    """The declared places and the limits. The driver reads the settings, and this travels to the workers."""

    root: Path | None = None
    hosts: tuple[Host, ...] = ()
    stores: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    @property
    def empty(self) -> bool:
        """True if no place is declared."""
        return self.root is None and not self.hosts and not self.stores

    def check_host(self, host: str, port: int, scheme: str) -> None:
        """Deny a host that is not declared for this port."""
        if not any(rule.matches(host, port, scheme) for rule in self.hosts):
            raise AccessDenied(f"host {host}, port {port} is not declared (EOS_FILES_HOSTS)")

    def check_address(self, host: str, text: str, port: int) -> Address:
        """Deny an address that is not public, unless the address or its network is declared for this port. A declared
        name does not open the private network that it may resolve to."""
        address = parse_address(text)
        assert address is not None
        target = embedded_ipv4(address) or address
        if self._declares(target, port) or (host == LOCALHOST and target.is_loopback):
            return address
        site_local = isinstance(target, ipaddress.IPv6Address) and target.is_site_local
        if not target.is_global or target.is_multicast or target.is_reserved or site_local:
            kind = "loopback" if target.is_loopback else "link-local" if target.is_link_local else "not public"
            raise AccessDenied(f"{host} resolves to {target}, which is {kind} and not declared (EOS_FILES_HOSTS)")
        return address

    def _declares(self, address: Address, port: int) -> bool:
        return any(
            rule.network is not None and address in rule.network and rule.port in (None, ANY_PORT, port)
            for rule in self.hosts
        )

    def check_store(self, url: str) -> None:
        """Deny an address that does not begin like a declared store."""
        if not any(url.startswith(prefix) for prefix in self.stores):
            raise AccessDenied(f"{url.split(':', 1)[0]}: is not a declared store (EOS_FILES_STORES)")


def parse_address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def embedded_ipv4(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address to which an IPv6 address of a transition mechanism leads."""
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def parse_host(text: str) -> Host:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:./]+)\]|([^:\[\]]+))(?::(\d{1,5}|\*))?", text)
    name = (match.group(1) or match.group(2)).lower() if match else ""
    port = None if not match or not match.group(3) else ANY_PORT if match.group(3) == "*" else int(match.group(3))
    try:
        return Host(name, ipaddress.ip_network(name, strict=False), port)
    except ValueError:
        if re.fullmatch(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", name) and (port is None or port <= MAX_PORT):
            return Host(name, None, port)
    raise EosError(
        f"EOS_FILES_HOSTS: {text!r} is not a host, an address or a network.",
        "List names, addresses or networks, each with its port unless that is 80 or 443: "
        "files.example.com, 10.1.0.0/16, 127.0.0.1:8080, [::1]:8080, files.example.com:*.",
    )


def parse_store(text: str) -> str:
    scheme, colon, rest = text.partition("://")
    if not colon or not rest or "::" in text or scheme in BUILT_IN_SCHEMES:
        raise EosError(
            f"EOS_FILES_STORES: {text!r} is not a store.",
            "List the beginnings of the addresses that may be fetched, such as s3://bucket/incoming/.",
        )
    return text if text.endswith("/") else f"{text}/"
