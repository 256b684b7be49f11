"""A web server and a folder from which tests fetch files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eos_assets.files.access import Access, parse_host
from eos_assets_tests.files.web_server import WebServer, serving


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving() as server:
        yield server


@pytest.fixture
def access(tmp_path: Path, web: WebServer) -> Access:
    """Access to the folder and the server, and to nothing else."""
    (tmp_path / "root").mkdir()
    return Access(root=tmp_path / "root", hosts=(parse_host(web.host),))
