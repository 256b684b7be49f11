"""Open the file that a reference names, by the scheme of its URL."""

from collections.abc import Iterator
from contextlib import contextmanager

from eos_assets.files.access import Access
from eos_assets.files.download import Download
from eos_assets.files.limits import Meter
from eos_assets.files.local_file import open_local
from eos_assets.files.reference import Reference
from eos_assets.files.store import open_store
from eos_assets.files.web import open_web

OPENERS = {"file": open_local, "http": open_web, "https": open_web}


@contextmanager
def fetch(reference: Reference, access: Access, meter: Meter) -> Iterator[Download]:
    opener = OPENERS.get(reference.scheme, open_store)
    with opener(reference.url, access, meter) as download:
        yield download
