"""This machine's own address, which is never reached through a proxy."""

import os
import urllib.request

LOOPBACK = "127.0.0.1"
LOOPBACK_HOSTS = (LOOPBACK, "localhost")
#: Some clients read one name, some the other.
NO_PROXY_VARIABLES = ("no_proxy", "NO_PROXY")

#: Opens an address without any proxy.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def bypass_proxy() -> None:
    """Exempt this machine from the proxy, for this process and every process that it starts."""
    listed = ",".join(os.environ.get(name, "") for name in NO_PROXY_VARIABLES).split(",")
    hosts = dict.fromkeys(host.strip() for host in (*listed, *LOOPBACK_HOSTS) if host.strip())
    if "*" not in hosts:  # it means every host, but only if it is the only entry
        os.environ.update(dict.fromkeys(NO_PROXY_VARIABLES, ",".join(hosts)))
