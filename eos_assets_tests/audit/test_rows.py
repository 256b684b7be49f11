"""Rows of the audit tables that the driver makes."""

import numpy as np

from eos_assets.audit.record_reader import digest, digest_batch
from eos_assets.audit.rows import delivery_rows, transaction_rows
from eos_assets.log.ledger import LedgerEntry, WrittenRange
from eos_assets.log.provenance import ProvenanceMap

HEADERS = [("a", b"1"), ("b", None)]


def test_a_delivery_has_the_digest_of_its_record_with_its_headers() -> None:
    """It is the digest that a proof computes and that the ledger adds up."""
    plain, with_headers = digest(b"k", b"v"), digest(b"k", b"v", HEADERS)
    assert plain != with_headers
    records = digest_batch(0, 1, [(7, b"k", plain, 1_000_000), (8, b"k", with_headers, 2_000_000)])
    offsets = np.array([7, 8], np.int64)
    named = ProvenanceMap(2, 0, "sink", 1, offsets, offsets + 10, np.zeros(2, np.int64))
    rows = delivery_rows([named], [records], ["sink"]).sort_by("sink_offset")
    assert rows["digest"].to_pylist() == [plain, with_headers]
    assert rows["source_offset"].to_pylist() == [17, 18]


def test_a_delivery_whose_record_is_gone_has_no_digest() -> None:
    offsets = np.array([7], np.int64)
    named = ProvenanceMap(2, 0, "sink", 1, offsets, offsets, offsets)
    assert delivery_rows([named], [], ["sink"])["digest"].to_pylist() == [None]


def test_a_digest_of_64_bits_and_times_in_milliseconds_are_kept() -> None:
    written = (WrittenRange("sink", 1, 1, 0, 0, 2**64 - 1),)
    entry = LedgerEntry("p", "source", 0, 5, 8, 1, 1, 0, 0, None, written, "run", 1, 0, "1", 1, 2, state=written)
    (row,) = transaction_rows([(9, entry)], "id").to_pylist()
    assert (row["ledger_offset"], row["ledger_id"], row["dropped"]) == (9, "id", None)
    assert int(row["sinks"][0]["digest"]) == int(row["state"][0]["digest"]) == 2**64 - 1
    assert [row[name].timestamp() for name in ("began_at", "ended_at")] == [0.001, 0.002]
