"""An invalid declaration is refused, and the error names what is wrong."""

from typing import Any

import pytest
from dagster._core.definitions.utils import DISALLOWED_NAMES

from eos_assets.declare.options import RESERVED, Unique
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.stateful import stateful
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError


def test_a_pipeline_that_reads_what_it_writes_is_refused() -> None:
    with pytest.raises(EosError, match=r"two purposes: t\."):
        pipeline(source=Topic("t"), sink=Topic("t"), name="loop")(lambda records: records)


def test_a_pipeline_with_a_name_that_dagster_reserves_is_refused() -> None:
    assert {*DISALLOWED_NAMES} == RESERVED
    with pytest.raises(EosError, match="The pipeline name 'input' is reserved"):
        pipeline(source=Topic("s"), sink=Topic("t"), name="input")(lambda records: records)


@pytest.mark.parametrize("name", ["Big", "a-b", "a/b", "", "1a"])
def test_a_pipeline_with_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(EosError, match=r"The pipeline name .* is not valid"):
        pipeline(source=Topic("s"), sink=Topic("t"), name=name or " ")(lambda records: records)


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"sink": []}, "declares no sink"),
        ({"source": Topic("t-dead-letters")}, r"two purposes: t-dead-letters\."),
        ({"sink": [Topic("t"), Topic("t")]}, r"two purposes: t\."),
        ({"sink": Topic("eos.p.ledger")}, r"two purposes: eos\.p\.ledger\."),
        ({"source": Topic("eos.p.provenance")}, r"two purposes: eos\.p\.provenance\."),
        ({"sink": [Topic("t"), Topic("eos.p.2.changelog")], "generation": 2}, r"two purposes: eos\.p\.2\.changelog"),
        ({"on_error": "ignore"}, "on_error='ignore'"),
        ({"durability": "prod"}, "durability='prod'"),
        ({"unique": Unique(within=5)}, "keeps no state"),
        ({"owners": ["ada"]}, "the owner 'ada' is not valid"),
        ({"owners": ["team:"]}, "the owner 'team:' is not valid"),
        ({"owners": "ada@example.com"}, r"owners='ada@example\.com' is not valid"),
        ({"tags": {"a b": "c"}}, "the tag 'a b': 'c' is not valid"),
        ({"tags": {"a": "b c"}}, "the tag 'a': 'b c' is not valid"),
        ({"tags": {"a": 1}}, "the tag 'a': 1 is not valid"),
        ({"group": "sales-online"}, "group='sales-online' is not valid"),
        ({"metadata": {1: "a"}}, "the name 1 of a metadata entry is not valid"),
        ({"on_eror": "stop"}, r"on_eror is not an option\.\n.*Did you mean on_error\?"),
        ({"batching": 1000}, r"batching=1000 is not valid\.\n.*eos\.Batching"),
        ({"unique": "key"}, r"unique='key' is not valid\.\n.*eos\.Unique"),
        ({"drops": "yes"}, r"drops='yes' is not valid"),
        ({"generation": "2"}, r"generation='2' is not valid"),
        ({"sink": [5]}, "5 is not a topic"),
    ],
)
def test_an_invalid_declaration_is_refused(declared: dict[str, Any], problem: str) -> None:
    with pytest.raises(EosError, match=problem):
        pipeline(**{"source": Topic("s"), "sink": Topic("t"), "name": "p", **declared})(lambda records: records)


@pytest.mark.parametrize("partitions", [0, "3"])
def test_a_topic_with_an_invalid_number_of_partitions_is_refused(partitions: Any) -> None:
    with pytest.raises(EosError, match=f"Topic t: partitions={partitions!r} is not valid"):
        Topic("t", partitions=partitions)


def test_a_function_with_other_parameters_is_refused() -> None:
    with pytest.raises(EosError, match=r"Pipeline p: the function takes \(\) instead of \(records\)"):
        pipeline(source="s", sink="t", name="p")(lambda: None)  # type: ignore[arg-type, misc]
    with pytest.raises(EosError, match=r"Pipeline p: the function takes \(records\) instead of \(records, state\)"):
        stateful(source="s", sink="t", name="p", state="n bigint")(lambda records: records)  # type: ignore[arg-type, misc]
