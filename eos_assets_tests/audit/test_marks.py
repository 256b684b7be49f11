"""Marks: how far an audit table reaches."""

from eos_assets.audit.marks import Mark, advance


def test_a_mark_is_read_from_the_commit_that_carries_it() -> None:
    mark = Mark("id", {0: 5, 2: 7}, 3)
    assert Mark.from_json(mark.to_json()) == mark


def test_the_commit_of_another_writer_has_no_mark() -> None:
    assert [Mark.from_json(text) for text in (None, "", "plain", "[]", "{}")] == [None] * 5


def test_rows_that_were_not_counted_make_the_total_unknown() -> None:
    mark = Mark("id", {0: 5}, 3, version=8)
    assert mark.advance({0: 9}, 2) == Mark("id", {0: 9}, 5)
    assert mark.advance({0: 9}, None).advance({0: 10}, 2).rows is None


def test_the_highest_offset_of_each_partition_is_kept() -> None:
    assert advance({0: 5}, [(0, 3), (0, 8), (1, 0)]) == {0: 8, 1: 0}
