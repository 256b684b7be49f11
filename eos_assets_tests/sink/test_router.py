"""Rows go to the topic and the partition that the transform declares, else to those of their key."""

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from eos_assets.declare.names import Names
from eos_assets.errors import Code, TaskError
from eos_assets.kafka.partitioner import partitions_of
from eos_assets.sink.job import Job
from eos_assets.sink.router import Router

COUNTS = {"a": 3, "b": 5}
JOB = cast(Job, SimpleNamespace(names=Names("p", "s", "a"), sink_partitions=COUNTS, default_topic="a"))


def route(*rows: dict[str, Any], source_partition: int = 4) -> dict[tuple[str, int], list[int]]:
    types = {"key": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
    names = {name for row in rows for name in row}
    schema = pa.schema([(name, kind) for name, kind in types.items() if name in names])
    routes = Router(JOB, source_partition).route(pa.RecordBatch.from_pylist(list(rows), schema))
    return {(topic, partition): indexes.tolist() for topic, partition, indexes in routes}


def partition_of(key: bytes, topic: str) -> int:
    return int(partitions_of(pa.array([key], pa.binary()), COUNTS[topic])[0])


def test_a_row_goes_where_its_key_belongs_and_rows_of_one_partition_keep_their_order() -> None:
    keys = [b"%d" % number for number in range(50)]
    routes = route(*({"key": key} for key in keys))
    assert {topic for topic, _ in routes} == {"a"}
    assert sorted(index for indexes in routes.values() for index in indexes) == list(range(50))
    for (topic, partition), indexes in routes.items():
        assert indexes == sorted(indexes)
        assert {partition_of(keys[index], topic) for index in indexes} == {partition}


def test_a_row_without_a_key_follows_its_source_partition() -> None:
    assert route({"key": None}, {"key": None}) == {("a", 4 % 3): [0, 1]}


def test_declared_topics_and_partitions_come_first() -> None:
    rows: list[dict[str, Any]] = [
        {"key": b"k", "topic": "b", "partition": 4},
        {"key": b"k", "topic": None, "partition": 2},
        {"key": b"k", "topic": "b", "partition": None},
        {"key": None, "topic": "b", "partition": 4},
    ]
    expected: dict[tuple[str, int], list[int]] = {("a", 2): [1], ("b", 4): [0, 3]}
    expected.setdefault(("b", partition_of(b"k", "b")), []).append(2)
    assert {place: sorted(indexes) for place, indexes in route(*rows).items()} == {
        place: sorted(indexes) for place, indexes in expected.items()
    }


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"key": b"k", "topic": "c"}, "topic c, which is not declared: use one of a, b"),
        ({"key": b"k", "partition": 3}, "partition 3 of a: use 0 to 2"),
        ({"key": b"k", "partition": -1}, "partition -1 of a: use 0 to 2"),
    ],
)
def test_a_place_that_does_not_exist_is_refused(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(TaskError, match=problem) as refused:
        route({"key": b"x", "topic": "a", "partition": 0} | row)
    assert refused.value.code is Code.INVALID_RESULT
