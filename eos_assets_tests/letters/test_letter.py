"""Letters are grouped by a code and chosen by filters, and their headers are known to other tools."""

from dataclasses import replace

import pytest

from eos_assets.errors import EosError
from eos_assets.kafka.headers import Header
from eos_assets.letters.letter import (
    Letter,
    LetterFilter,
    count_by_reason,
    origin_of,
    original_headers,
    original_timestamp,
    parse_letter,
)
from eos_assets.log.dead_letter import CODE_CHARACTERS, dead_letter_headers, reason_code
from eos_assets.log.ledger import DISCARDED, REJECTED, REPLAYED
from eos_assets.log.letter_marks import LastMark, Status

LETTER = Letter((1, 7), offset=3, reason="bad_amount: -3", key=b"k", written_ms=1000)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("bad_amount: -3", "bad_amount"),
        ("ValueError: no such account 17", "ValueError"),
        ("[CAST_INVALID_INPUT] The value 'x' of the type", "CAST_INVALID_INPUT"),
        ("row 7 (line 8): 'abc' is not a number", "row … (line …): … is not a number"),
        ("the balance would be -5.20, and 0 is the lowest", "the balance would be …, and … is the lowest"),
        ("no integer\nsecond line", "no integer"),
        ("", "(no reason)"),
        ("x" * 200, "x" * CODE_CHARACTERS),
    ],
)
def test_the_code_is_what_reasons_of_one_fault_have_in_common(reason: str, code: str) -> None:
    assert reason_code(reason) == code


def test_the_headers_of_a_letter_are_also_those_of_kafka_streams() -> None:
    own: list[Header] = [("trace", b"17"), ("eos.error", b"of another pipeline"), ("eos.timestamp", b"1")]
    headers = [*own, *dead_letter_headers(b"bad_amount: -3", "shop", "orders", 2, 41, 1234)]
    known = dict(headers)
    assert known["eos.code"] == known["__streams.errors.exception"] == b"bad_amount"
    assert known["eos.error"] == known["__streams.errors.message"] == b"bad_amount: -3"
    place = [known[f"__streams.errors.{name}"] for name in ("topic", "partition", "offset")]
    assert place == [b"orders", b"2", b"41"]
    assert original_headers(headers) == own, "a record that was a dead letter before keeps its headers"
    assert original_timestamp(headers) == 1234
    assert origin_of(headers, "orders") == (2, 41)
    assert origin_of(headers, "elsewhere") is None
    assert original_timestamp([*own, ("eos.error", b"written by an earlier version")]) is None


def marked(outcome: str, reason: str = "") -> Letter:
    return replace(LETTER, mark=LastMark(outcome, reason, "me", "run", 2000))


def test_a_letter_that_fails_again_is_open_with_its_new_reason() -> None:
    again = marked(REJECTED, "unknown_account: 4")
    assert (again.status, again.code) == (Status.OPEN, "unknown_account")
    assert (marked(REPLAYED).status, marked(REPLAYED).code) == (Status.REPLAYED, "bad_amount")
    assert marked(DISCARDED, "a test").status is Status.DISCARDED


@pytest.mark.parametrize(
    ("chosen", "matches"),
    [
        (LetterFilter(), True),
        (LetterFilter(codes=frozenset({"bad_amount"}), keys=frozenset({b"k"})), True),
        (LetterFilter(codes=frozenset({"other"})), False),
        (LetterFilter(partitions=frozenset({0})), False),
        (LetterFilter(origins=frozenset({(1, 7)})), True),
        (LetterFilter(keys=frozenset({b"other"})), False),
        (LetterFilter(since_ms=1000, until_ms=1001), True),
        (LetterFilter(since_ms=1001), False),
        (LetterFilter(until_ms=1000), False),
        (LetterFilter(statuses=frozenset({Status.DISCARDED})), False),
    ],
)
def test_a_filter_chooses_letters(chosen: LetterFilter, matches: bool) -> None:
    assert chosen.matches(LETTER) is matches


def test_letters_are_counted_by_code() -> None:
    later = replace(LETTER, origin=(2, 1), reason="bad_amount: 0", written_ms=3000)
    other = replace(LETTER, reason="no date", written_ms=2000)
    first, second = count_by_reason([LETTER, later, other])
    assert (first.code, first.letters, first.partitions) == ("bad_amount", 2, {1, 2})
    assert (first.first_ms, first.last_ms, first.example) == (1000, 3000, "bad_amount: 0")
    assert (second.code, second.letters) == ("no date", 1)


def test_a_letter_is_named_by_its_origin() -> None:
    assert parse_letter("0/17") == (0, 17)
    for name in ("17", "0/", "a/1", "0/1/2"):
        with pytest.raises(EosError, match="is not valid"):
            parse_letter(name)
