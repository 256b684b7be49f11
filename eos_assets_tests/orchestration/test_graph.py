"""The asset graph of several pipelines: chained, with a shared sink, and with the lineage of each column."""

import dagster as dg
import pytest

from eos_assets.audit.tables import TABLES
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.registry import refuse_undeclared_sharing
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.orchestration.pipeline_definitions import pipeline_definitions
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets_tests.orchestration.platform import Platform
from eos_assets_tests.run.lab import squared


def declared(name: str, source: str, sink: str, *, shared: bool = False) -> Pipeline:
    return Pipeline(name, Topic(source), (Topic(sink),), squared, version="1", shared_sink=shared)


def definitions(pipelines: list[Pipeline]) -> dg.Definitions:
    resources = {"kafka": KafkaResource(), "spark": SparkResource(), "lake": LakeResource()}
    return dg.Definitions.merge(pipeline_definitions(pipelines), dg.Definitions(resources=resources))


def parents(pipelines: list[Pipeline], *key: str) -> set[str]:
    graph = definitions(pipelines).resolve_asset_graph()
    return {parent.to_user_string() for parent in graph.get(dg.AssetKey(key)).parent_keys}


def test_two_pipelines_that_share_a_sink_are_an_asset_each_and_their_reader_depends_on_both() -> None:
    pipelines = [
        declared("left", "a", "both", shared=True),
        declared("right", "b", "both", shared=True),
        declared("reader", "both", "end"),
    ]
    refuse_undeclared_sharing(pipelines)
    assert parents(pipelines, "left", "both") == {"a"}
    assert parents(pipelines, "right", "both-dead-letters") == {"b"}
    assert parents(pipelines, "end") == {"left/both", "right/both"}
    assert parents(pipelines, "eos.reader.ledger") == {"left/both", "right/both"}


def test_a_sink_of_two_pipelines_of_which_one_does_not_share_it_is_refused() -> None:
    mine, theirs = declared("mine", "a", "both", shared=True), declared("theirs", "b", "both")
    with pytest.raises(EosError, match="mine and theirs both write to both") as refused:
        refuse_undeclared_sharing([mine, theirs])
    assert "shared_sink=True in theirs" in refused.value.remedy
    with pytest.raises(EosError, match="both-dead-letters"):
        refuse_undeclared_sharing([declared("one", "a", "both"), declared("two", "b", "both-dead-letters")])


def test_chained_pipelines_are_one_graph(chain: list[Pipeline]) -> None:
    assert parents(chain, "middle") == {"first"}
    assert parents(chain, "last") == {"middle"}
    keys = definitions(chain).resolve_all_asset_keys()
    assert [key for key in keys if key.path == ["middle"]] == [dg.AssetKey("middle")], (
        "the source of one is the sink of the other"
    )


@pytest.fixture
def chain() -> list[Pipeline]:
    return [declared("one", "first", "middle"), declared("two", "middle", "last")]


def test_every_column_of_the_audit_tables_has_its_lineage(platform: Platform) -> None:
    platform.lab.fill(30)
    assert platform.materialize().success
    result = platform.update_tables()
    assert result.success
    graph = platform.defs.resolve_asset_graph()
    seen = set()
    for event in result.get_asset_materialization_events():
        metadata = event.materialization.metadata
        if "dagster/column_lineage" not in metadata:
            continue
        key = event.materialization.asset_key
        seen.add(key.path[-1])
        lineage, schema = metadata["dagster/column_lineage"].value, metadata["dagster/column_schema"].value
        assert isinstance(lineage, dg.TableColumnLineage)
        assert isinstance(schema, dg.TableSchema)
        for column in schema.columns:
            sources = lineage.deps_by_column[column.name]
            assert sources, f"{key.to_user_string()}.{column.name} has no lineage"
            for source in sources:
                assert source.asset_key in graph.get(key).parent_keys
                upstream = graph.get(source.asset_key).metadata["dagster/column_schema"]
                assert source.column_name in {known.name for known in upstream.columns}
    assert seen == set(TABLES)
