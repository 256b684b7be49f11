"""A web server and a folder to take files from."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eos_assets.files.access import Access, host
from eos_assets_tests.files.web_server import WebServer, serving


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving() as server:
        yield server


@pytest.fixture
def access(tmp_path: Path, web: WebServer) -> Access:
    """The folder and the server, and nothing else."""
    (tmp_path / "root").mkdir()
    return Access(root=tmp_path / "root", hosts=(host(web.host),))
