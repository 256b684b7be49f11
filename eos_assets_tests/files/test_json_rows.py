"""Rows of JSON lines and arrays: their numbers, and their invalid rows."""

import io
import json

import pytest

from eos_assets.files.access import Access
from eos_assets.files.errors import RowError
from eos_assets.files.json_rows import read_json_lines
from eos_assets_tests.files.reading import read, reason
from eos_assets_tests.files.sample_files import put, row


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ('{"a": ', "invalid JSON"),
        ("[1, 2]", "is not a JSON object"),
        ("17", "is not a JSON object"),
        (json.dumps(row(amount=None)), "amount is missing"),
        (json.dumps(row(amount=[1])), "amount is \"['1']\", which is not a string"),
        (json.dumps(row(account=True)), "account is 'True', which is not a string"),
        (json.dumps(row(text="\ud800")), "which is not a string"),
        ('{"amount": NaN}', "NaN is not JSON"),
        (json.dumps(row())[:-1] + ', "amount": "9.00"}', "amount occurs twice"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_an_invalid_row_of_json_is_reported(access: Access, wrong: str, expected: str) -> None:
    good = [json.dumps(row())] * 3
    lines = reason(put(access, "a.jsonl", "\n".join([*good, wrong, *good])), access)
    assert lines.startswith("row 4 (line 4): "), lines
    assert expected in lines
    array = reason(put(access, "a.json", f"[{','.join([*good, wrong, *good])}]"), access)
    assert array.startswith("row 4: "), array


def test_a_repeated_name_in_another_column_is_ignored(access: Access) -> None:
    other = json.dumps(row())[:-1] + ', "other": 1, "other": {"amount": 1, "amount": 2}}'
    assert len(read(put(access, "a.jsonl", other), access)) == 1


@pytest.mark.parametrize("line", ["DEEP", '{"amount": DEEP}'])
def test_json_of_any_depth_is_an_invalid_row(line: str) -> None:
    """Some depths can be decoded but, a few calls later, not formatted for the reason."""
    for depth in range(1, 1100):
        content = line.replace("DEEP", "[" * depth + "]" * depth).encode()
        with pytest.raises(RowError, match=r"^row 1 "):
            list(read_json_lines(io.BytesIO(content), 1 << 20))


def test_numbers_in_json_keep_their_digits(access: Access) -> None:
    text = json.dumps(row(account=1)).replace('"-12.34"', "1234567890123456789012345.10")
    for name, content in (("a.jsonl", f"{text}\n\n{text}"), ("a.json", f" [ {text} , {text} ] ")):
        assert [transaction["amount"] for transaction in read(put(access, name, content), access)] == [
            "1234567890123456789012345.10"
        ] * 2
    assert read(put(access, "b.json", "[]"), access) == []
    assert "more content after" in reason(put(access, "c.json", "[] []"), access)
    assert "not a JSON array" in reason(put(access, "d.json", text), access)
    assert "instead of , or ]" in reason(put(access, "e.json", f"[{text} {text}]"), access)
    missing = "row 2: invalid JSON: no element between a comma and the ]"
    assert missing in reason(put(access, "f.json", f"[{text},]"), access)
    assert "row 2: truncated" in reason(put(access, "g.json", f"[{text},"), access)
