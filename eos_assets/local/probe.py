"""A health check for containers: `python -m eos_assets.local.probe http://host:port/path` exits with 0 if it serves.

It replaces curl and a second Java in the image.
"""

import socket
import sys
import urllib.error
import urllib.parse

from eos_assets.platform.loopback import direct

SECONDS = 5


def serves(address: str) -> bool:
    """http: the page is served. tcp: a server accepts connections."""
    parts = urllib.parse.urlsplit(address)
    try:
        if parts.scheme == "tcp":
            with socket.create_connection((parts.hostname or "", parts.port or 0), SECONDS):
                return True
        with direct.open(address, timeout=SECONDS) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


if __name__ == "__main__":
    sys.exit(0 if all(serves(address) for address in sys.argv[1:]) else 1)
