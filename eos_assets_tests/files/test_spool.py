"""The errors of one file: the dead letter that it becomes, and those that are not its own."""

import errno
import gzip
import hashlib
import io
import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from eos_assets.files import reference
from eos_assets.files import spool as spool_module
from eos_assets.files.access import Access
from eos_assets.files.errors import FileError
from eos_assets.files.limits import Meter
from eos_assets.files.spool import spool
from eos_assets.files.task import read_file
from eos_assets.files.unpack import unpack
from eos_assets_tests.files.reading import reason
from eos_assets_tests.files.sample_files import GOOD, HEADER, put


def read_while_failing(access: Access, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> Iterator[pa.RecordBatch]:
    """The result for a valid file while a library raises this."""

    def fail(*_: object) -> None:
        raise failure

    url = put(access, "a.csv", f"{HEADER}\n{GOOD}\n")
    monkeypatch.setattr(spool_module, "encode_transactions", fail)
    return read_file(url.encode(), {"partition": 0, "offset": 0, "ordinal": 0}, access)


@pytest.mark.parametrize("failure", [KeyError("text"), IndexError("no row"), pa.ArrowNotImplementedError("later")])
def test_an_unexpected_error_of_a_library_is_one_dead_letter(
    access: Access, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    (batch,) = read_while_failing(access, monkeypatch, failure)
    assert batch["error"][0].as_py() == f"unexpected error: {type(failure).__name__}: {failure}"
    assert batch["content_digest"][0].is_valid


@pytest.mark.parametrize("failure", [MemoryError(), OSError(errno.ENOSPC, "No space left on device")])
def test_an_error_of_the_system_is_not_a_dead_letter(
    access: Access, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    with pytest.raises(type(failure)):
        list(read_while_failing(access, monkeypatch, failure))


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_an_error_of_the_disk_is_not_a_damaged_file(access: Access, compression: str) -> None:
    class Failing(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, _: object) -> int:
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        unpack(Failing(), compression, Meter(access.limits)).read(1)


def test_a_wrong_checksum_and_an_invalid_row_are_reported_with_the_digest(access: Access) -> None:
    content = f"{HEADER}\n{GOOD}\n"
    digest = f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"
    wrong = json.dumps({"url": put(access, "a.csv", content), "checksum": "sha256:" + "0" * 64})
    assert reason(wrong, access) == f"wrong checksum: declared sha256:{'0' * 64}, found {digest}"
    bad = gzip.compress(f"{HEADER}\nbad\n{GOOD}\n".encode() * 1000)
    with pytest.raises(FileError, match="row 1") as failure:
        spool(reference.parse(put(access, "b.csv.gz", bad).encode()), access)
    assert failure.value.digest == f"sha256:{hashlib.sha256(bad).hexdigest()}", "of the whole compressed file"
