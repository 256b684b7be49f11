"""A ledger entry can be read back, and one of another version is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.log import ledger
from eos_assets.log.ledger import (
    Amendment,
    LedgerEntry,
    LetterEntry,
    LetterMark,
    LostOutputs,
    Repair,
    WrittenRange,
)

offsets = st.integers(0, 2**62)
identifiers = st.from_regex(r"[a-z_][a-z0-9_]{0,20}", fullmatch=True)
topics = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True).filter(lambda name: name not in (".", ".."))

entries = st.builds(
    LedgerEntry,
    pipeline=identifiers,
    topic=topics,
    partition=st.integers(0, 99),
    start=offsets,
    next=offsets,
    records_in=offsets,
    records_out=offsets,
    skipped=offsets,
    dead=offsets,
    dropped=st.none() | offsets,
    sinks=st.lists(
        st.builds(
            WrittenRange,
            topic=topics,
            partition=offsets,
            count=offsets,
            first=offsets,
            last=offsets,
            digest=st.integers(0, 2**64 - 1),
        )
    ).map(tuple),
    run=st.text(),
    run_attempt=offsets,
    task_attempt=offsets,
    code_version=st.text(),
    began_ms=offsets,
    ended_ms=offsets,
)

repairs = st.builds(
    Repair,
    pipeline=identifiers,
    topic=topics,
    partition=offsets,
    number=st.integers(1, 99),
    position=offsets,
    first=offsets,
    last=offsets,
    records_in=offsets,
    records_out=offsets,
    skipped=offsets,
    dead=offsets,
    sinks=st.lists(st.builds(WrittenRange, topics, *[offsets] * 5)).map(tuple),
    lost=st.lists(st.builds(LostOutputs, st.integers(-9, 2**62), topics, *[offsets] * 3)).map(tuple),
    run=st.text(),
    run_attempt=offsets,
    task_attempt=offsets,
    code_version=st.text(),
    began_ms=offsets,
    ended_ms=offsets,
)


letters = st.builds(
    LetterEntry,
    pipeline=identifiers,
    topic=topics,
    partition=offsets,
    number=st.integers(1, 99),
    position=offsets,
    marks=st.lists(st.builds(LetterMark, offset=offsets, outcome=st.text(), reason=st.text()), min_size=1).map(tuple),
    by=st.text(),
    records_out=offsets,
    skipped=offsets,
    sinks=st.lists(st.builds(WrittenRange, topics, offsets, offsets, offsets, offsets, offsets)).map(tuple),
    run=st.text(),
    run_attempt=offsets,
    task_attempt=offsets,
    code_version=st.text(),
    began_ms=offsets,
    ended_ms=offsets,
)


@given(entries | repairs | letters)
def test_a_ledger_entry_can_be_read_back(entry: LedgerEntry | Amendment) -> None:
    assert ledger.load(entry.to_json()) == entry


def test_a_ledger_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 99"):
        ledger.load(b'{"v":99,"kind":"entry"}')
