"""The array of messages points at the bytes of its Arrow columns."""

import ctypes

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.kafka.producer import message_array

columns = st.lists(st.tuples(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=9)))


def read(address: int, length: int) -> bytes | None:
    return ctypes.string_at(address, length) if address else None


@given(columns, st.integers(0, 3), st.sampled_from([pa.binary(), pa.large_binary()]))
def test_each_message_has_the_key_and_the_value_of_its_row(
    rows: list[tuple[bytes | None, bytes | None]], offset: int, kind: pa.DataType
) -> None:
    before = [(b"before", None)] * offset
    keys, values = (pa.array([row[n] for row in (*before, *rows)], kind).slice(offset) for n in (0, 1))
    messages = message_array(keys, values)
    assert [(read(int(m["key"]), int(m["key_len"])), read(int(m["payload"]), int(m["len"]))) for m in messages] == rows
