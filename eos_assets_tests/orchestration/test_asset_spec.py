"""What a pipeline declares reaches its assets and checks in Dagster, without any server."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame

from eos_assets import Check, Finding, Proof, api
from eos_assets.declare.options import Unique
from eos_assets.declare.pipeline import Pipeline, pipeline
from eos_assets.declare.stateful import stateful
from eos_assets.orchestration.asset_spec import code_references
from eos_assets.orchestration.assets.audit_tables import audit_tables
from eos_assets.orchestration.assets.state_snapshot import state_snapshot
from eos_assets.orchestration.assets.transactional_topic import RunConfig, transactional_topic
from eos_assets.orchestration.checks import UNIQUE_NAME, declared_check, invariant_checks
from eos_assets.orchestration.faulty_runs import FaultyRunConfig
from eos_assets.orchestration.pipeline_definitions import pipeline_definitions
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource


def shop(records: DataFrame) -> DataFrame:
    """Sell what is in stock."""
    return records


def stock(records: DataFrame, state: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Count what is left."""
    return records, state


def declare(**options: Any) -> Pipeline:
    return pipeline(source="orders", sink="sales", **options)(shop)


def specs(declared: Pipeline) -> list[dg.AssetSpec]:
    return [spec for asset in (transactional_topic(declared), audit_tables(declared)) for spec in asset.specs]


def reference(metadata: Mapping[str, Any]) -> dg.LocalFileCodeReference:
    (linked,) = metadata["dagster/code_references"].code_references
    assert isinstance(linked, dg.LocalFileCodeReference)
    return linked


def test_the_options_of_a_pipeline_reach_all_its_assets() -> None:
    declared = declare(
        owners=["team:sales", "ada@example.com"],
        tags={"domain": "shop"},
        group="retail/online",
        description="Sells.",
        metadata={"runbook": "docs/shop.md"},
    )
    assert len(specs(declared)) == 8, "sink, dead letters, ledger, provenance and four tables"
    for spec in specs(declared):
        assert spec.owners == ["team:sales", "ada@example.com"]
        assert spec.tags["domain"] == "shop"
        assert {"layer"} <= set(spec.tags)
        assert spec.group_name == "retail/online"
        assert (spec.description or "").endswith("\n\nSells.")
        assert spec.metadata["runbook"] == "docs/shop.md"


def test_by_default_the_group_is_the_pipeline_the_description_its_docstring_and_no_owner_is_invented() -> None:
    for spec in specs(declare()):
        assert (spec.group_name, list(spec.owners)) == ("shop", [])
        assert (spec.description or "").endswith("\n\nSell what is in stock.")


@pytest.mark.parametrize("declared", [timedelta(minutes=15), 900, 900.0])
def test_the_sinks_of_a_pipeline_are_late_after_the_declared_time(declared: timedelta | float) -> None:
    late = {spec.key.to_user_string(): spec.freshness_policy for spec in specs(declare(fresh_within=declared))}
    assert late.pop("sales") == dg.FreshnessPolicy.time_window(fail_window=timedelta(minutes=15))
    assert set(late.values()) == {None}
    assert {spec.freshness_policy for spec in specs(declare())} == {None}


def test_the_assets_of_a_pipeline_link_to_its_transform() -> None:
    for spec in specs(declare()):
        linked = reference(spec.metadata)
        assert Path(linked.file_path).samefile(__file__)
        assert linked.line_number == shop.__code__.co_firstlineno


def test_the_assets_of_a_stateful_pipeline_link_to_its_fold() -> None:
    declared = stateful(source="orders", sink="stocks", state="left long")(stock)
    (spec,) = state_snapshot(declared).specs
    assert reference(spec.metadata).line_number == stock.__code__.co_firstlineno
    assert (spec.description or "").endswith("\n\nCount what is left.")


def test_a_transform_without_source_text_has_no_link() -> None:
    typed: dict[str, Any] = {}
    exec("def typed(records): return records", typed)
    declared = pipeline(source="orders", sink="sales", code_version="1")(typed["typed"])
    assert code_references(declared) == {}


def test_the_uniqueness_of_the_source_is_a_check_only_where_a_key_is_declared() -> None:
    def names(declared: Pipeline) -> set[str]:
        return {spec.name for spec in invariant_checks(declared).check_specs}

    assert names(declare(unique=Unique("key"))) - names(declare()) == {UNIQUE_NAME}
    assert "values_recompute" in names(declare(deterministic=False)), "it is reported as not evaluated"


def test_a_declared_check_blocks_only_if_it_is_declared_to() -> None:
    for blocking in (True, False):
        check = Check("enough_stock", "Nothing is oversold.", lambda *_: Finding(), blocking=blocking)
        (spec,) = declared_check(declare(checks=(check,)), check).check_specs
        assert (spec.name, spec.description, spec.blocking) == ("enough_stock", "Nothing is oversold.", blocking)


def test_a_check_that_a_user_adds_is_described_by_its_docstring() -> None:
    declared = api.pipeline(source="orders", sink="sales")(shop)

    @declared.check(blocking=False)
    def prices_are_positive(proof: Proof) -> Finding:
        """Nothing is given away."""
        return Finding()

    (check,) = declared.checks
    (spec,) = declared_check(declared, check).check_specs
    described = (spec.name, spec.description, spec.blocking)
    assert described == ("prices_are_positive", "Nothing is given away.", False)


def test_only_the_launchpad_of_an_experiment_has_faults() -> None:
    for config, wanted in ((RunConfig, set[str]()), (FaultyRunConfig, {"failure_probability", "kill_partition"})):
        asset = transactional_topic(declare(), run_config=config)
        fields = set(asset.op.config_schema.config_type.fields)  # type: ignore[union-attr]
        assert {name for name in fields if name.startswith(("failure_prob", "kill"))} == wanted


def test_topics_may_have_names_that_dagster_reserves() -> None:
    declared = pipeline(source="input", sink="output", name="p")(shop)
    resources = {"kafka": KafkaResource(), "spark": SparkResource(), "lake": LakeResource()}
    definitions = dg.Definitions.merge(pipeline_definitions([declared]), dg.Definitions(resources=resources))
    graph = definitions.resolve_asset_graph()
    assert graph.get(dg.AssetKey(["topic", "output"])).parent_keys == {dg.AssetKey(["topic", "input"])}
