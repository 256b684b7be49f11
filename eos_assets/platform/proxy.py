"""A corporate proxy is for other machines: requests to our own servers go past it."""

import os
import urllib.request

from eos_assets.platform.ports import LOOPBACK

OWN = (LOOPBACK, "localhost")
#: Clients read one name or the other.
NAMES = ("no_proxy", "NO_PROXY")

#: Opens addresses without any proxy.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def bypass_proxy() -> None:
    """Adds this machine to what this process, and whatever it starts, asks without a proxy."""
    given = ",".join(os.environ.get(name, "") for name in NAMES).split(",")
    hosts = dict.fromkeys(host.strip() for host in (*given, *OWN) if host.strip())
    if "*" not in hosts:  # it stands alone for all hosts
        os.environ.update(dict.fromkeys(NAMES, ",".join(hosts)))
