"""The digests that NumPy computes are those of the reference implementation."""

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.audit.record_reader import digest
from eos_assets.kafka.message_memory import HEADERS
from eos_assets.log.digest import FEW_VALUES, LONG_VALUE, row_digests

BYTES = st.one_of(st.none(), st.binary(max_size=2 * LONG_VALUE))
HEADER = st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5)))


def column(values: Sequence[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary())


@given(st.lists(st.tuples(BYTES, BYTES, st.lists(HEADER, max_size=2)), max_size=40))
def test_each_row_has_the_digest_of_its_key_value_and_headers(
    rows: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
) -> None:
    keys, values = column([key for key, _, _ in rows]), column([value for _, value, _ in rows])
    headers = pa.array([[{"key": k, "value": v} for k, v in listed] for _, _, listed in rows], HEADERS)
    assert row_digests(keys, values).tolist() == [digest(key, value) for key, value, _ in rows]
    assert row_digests(keys, values, headers).tolist() == [digest(*row) for row in rows]


def test_every_length_is_hashed_alike_in_groups_and_alone() -> None:
    values = [bytes((length * 7 + n * 31 + b) % 256 for b in range(length)) for length in range(300) for n in range(20)]
    assert len(values) // 300 > FEW_VALUES
    expected = [digest(None, value) for value in values]
    assert row_digests(pa.nulls(len(values), pa.binary()), column(values)).tolist() == expected


def test_a_slice_is_hashed_by_its_own_rows() -> None:
    values = column([b"%d" % number for number in range(100)])
    whole = row_digests(values, values)
    part = values.slice(40, 30)
    assert row_digests(part, part).tolist() == whole[40:70].tolist()
