"""CSV as other programs write it, and its invalid rows."""

import pytest

from eos_assets.files.access import Access
from eos_assets_tests.files.reading import read, reason
from eos_assets_tests.files.sample_files import GOOD, HEADER, put


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (GOOD.replace("-12.34", "12,34"), "7 fields, the header has 6"),
        (GOOD.replace("-12.34", "1e3"), "amount '1e3' is not a decimal number"),
        (GOOD.replace("-12.34", "NaN"), "amount 'NaN' is not a decimal number"),
        (GOOD.replace("-12.34", ""), "amount is missing"),
        (GOOD.replace("T1", ""), "transaction_id is missing"),
        (GOOD.replace("A1", "A 1"), "account 'A 1' is not an account"),
        (GOOD.replace("EUR", "eur"), "currency 'eur' is not a currency code"),
        (GOOD.replace("2026-05-04", "2026-02-30"), "booked_at '2026-02-30T09:30:00Z' is not an ISO timestamp"),
        (GOOD.replace("T09", "x09"), "booked_at '2026-05-04x09:30:00Z' is not an ISO timestamp"),
        (GOOD.replace("rent", 'a "b" c').replace("-12.34", '"1'), "invalid CSV"),
        ("T1,A1,-12.34", "3 fields, the header has 6"),
    ],
)
@pytest.mark.parametrize("before", [2, 11_000])
def test_an_invalid_row_of_a_csv_is_reported(access: Access, before: int, wrong: str, expected: str) -> None:
    content = "\n".join([HEADER, *[GOOD] * before, wrong, *[GOOD] * 3, "even worse"])
    message = reason(put(access, "a.csv", content), access)
    assert message.startswith(f"row {before + 1} (line {before + 2}): "), message
    assert expected in message


def test_csv_is_read_as_it_is_written_elsewhere(access: Access) -> None:
    """A byte order mark, CRLF, quotes, line breaks in a field, more columns, another order, no final line break."""
    content = (
        "\ufeffcurrency,transaction_id,branch,account,booked_at,amount,text\r\n"
        'EUR,T1,9,A1,2026-05-04T11:30:00+02:00,5,"two\r\nlines, ""quoted"""\r\n'
        "\r\n"
        "USD,T2,9,A2,2026-05-04 09:30:00.5,-0.10,"
    )
    assert read(put(access, "a.csv", content), access) == [
        {"transaction_id": "T1", "account": "A1", "amount": "5", "currency": "EUR",
         "booked_at": "2026-05-04T09:30:00Z", "text": 'two\r\nlines, "quoted"'},
        {"transaction_id": "T2", "account": "A2", "amount": "-0.10", "currency": "USD",
         "booked_at": "2026-05-04T09:30:00.5Z", "text": ""},
    ]  # fmt: skip
    assert "the header has no amount" in reason(put(access, "b.csv", HEADER.replace("amount", "sum")), access)
    assert "account twice" in reason(put(access, "c.csv", f"{HEADER},account\n"), access)
    assert "the first line is blank" in reason(put(access, "f.csv", f"\n{HEADER}\n{GOOD}\n"), access)
    assert "the header is longer than" in reason(put(access, "g.csv", "x" * 3_000_000), access)
    assert read(put(access, "d.csv", f"{HEADER}\n"), access) == []
    crlf = f"{HEADER}\r\n{GOOD}\r\n\r\n{GOOD.replace('EUR', '€')}\r\n"
    assert reason(put(access, "e.csv", crlf), access).startswith("row 2 (line 4): currency")
