"""Every invariant as an asset check, named as a fact. One scan of the topics serves all of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from eos_assets.audit.check import compare_with_ledger
from eos_assets.audit.tables import AuditTables
from eos_assets.declare.check import Check, Finding
from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.assets.transactional_topic import told
from eos_assets.orchestration.keys import sink_keys, table_key
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.verify.state_checker import NAME as STATE_NAME
from eos_assets.verify.verification import Verification
from eos_assets.verify.verify import verify_pipeline

#: What each check says, and whether bad data must stop before the audit tables and whatever lies downstream.
INVARIANTS = {
    "no_duplicates": ("No source record has two visible outputs of one number, no output two origins.", True),
    "none_missing": ("Every source record below the position has an output, a dead letter or a skip.", True),
    "none_invented": ("Every visible sink record has a committed, visible origin.", True),
    "ordered_within_partition": ("Origins rise with the sink offset, per source and sink partition.", True),
    "routed_correctly": ("Every record is in the partition its key or its declaration says.", True),
    "ledger_tiles_source": ("The ledger covers the source with no gap and no overlap.", True),
    "ledger_matches_sink": ("Counts and digests in the ledger are those of the sink.", True),
    "offsets_match_ledger": ("The committed group offset is the end of the ledger.", True),
    "values_recompute": ("Running the transform again, cut elsewhere, gives what the sink holds.", True),
    "source_is_unique": ("No business key comes twice in the source.", False),
    "no_open_transactions": ("No transaction holds back the last stable offset for longer than its timeout.", False),
}
AUDIT_CHECK = "audit_matches_ledger"
#: Metadata of an evaluation of the tables: up to where they were compared with which ledger.
MARKS = "compared"
#: A run that is under way has written down its own evaluation already, as one that is planned.
LOOK_BACK = 3
STATE_INVARIANT = ("Folding the source again gives the state that the changelogs hold.", True)


def invariants(pipeline: Pipeline) -> dict[str, tuple[str, bool]]:
    """What one scan proves of a pipeline: the same of every one, and the state of one that has any."""
    return {**INVARIANTS, **({STATE_NAME: STATE_INVARIANT} if pipeline.stateful else {})}


class CheckConfig(dg.Config):
    """By default a check looks at what came since the last proof; `full` looks at all that is retained."""

    full: bool = False


def invariant_checks(pipeline: Pipeline) -> dg.AssetChecksDefinition:
    key = sink_keys(pipeline)[0]
    specs = [
        dg.AssetCheckSpec(name, asset=key, description=description, blocking=blocking)
        for name, (description, blocking) in invariants(pipeline).items()
    ]

    @dg.multi_asset_check(specs=specs, name=f"{pipeline.name}_invariants", can_subset=True)
    def check(
        context: dg.AssetCheckExecutionContext,
        config: CheckConfig,
        kafka: KafkaResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[dg.AssetCheckResult]:
        address = lake.address() if pipeline.stateful else None
        result = told(
            lambda: verify_pipeline(pipeline, spark.spark_session, kafka.connection(), full=config.full, lake=address)
        )
        for finding in result.findings:
            if dg.AssetCheckKey(key, finding.name) not in context.selected_asset_check_keys:
                continue
            yield dg.AssetCheckResult(
                passed=finding.holds,
                asset_key=key,
                check_name=finding.name,
                severity=severity(finding),
                description=finding.detail,
                metadata=evidence(finding, result),
            )

    return check


def audit_check(pipeline: Pipeline) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=table_key(pipeline, "audit_transactions"),
        name=AUDIT_CHECK,
        description="The Delta tables say what the ledger says.",
        additional_deps=[table_key(pipeline, "audit_deliveries")],
    )
    def check(
        context: dg.AssetCheckExecutionContext,
        config: CheckConfig,
        kafka: KafkaResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> dg.AssetCheckResult:
        tables = AuditTables(pipeline, spark.spark_session, kafka.connection(), lake.address())
        marks = {} if config.full else last_marks(context.instance, audit_check_key(pipeline), tables)
        found = told(lambda: compare_with_ledger(tables, marks))
        return dg.AssetCheckResult(
            passed=found.finding.holds,
            severity=severity(found.finding),
            description=found.finding.detail,
            metadata={
                "evaluated": found.finding.evaluated,
                "since_the_last_proof": bool(marks),
                MARKS: {"lake": tables.folder, "ledger": tables.ledger_id, "offsets": found.reached},
                **examples(found.finding),
                "partitions": partition_table(found.partitions),
            },
        )

    return check


def audit_check_key(pipeline: Pipeline) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(table_key(pipeline, "audit_transactions"), AUDIT_CHECK)


def last_marks(instance: dg.DagsterInstance, key: dg.AssetCheckKey, tables: AuditTables) -> dict[int, int]:
    """Up to where the last evaluation compared these tables with this ledger, if it passed; else nothing."""
    for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=LOOK_BACK):
        event = record.event.dagster_event if record.event else None
        if event is None or event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            continue
        evaluation = event.asset_check_evaluation_data
        value = evaluation.metadata[MARKS].value if MARKS in evaluation.metadata else None
        known: dict[str, Any] = value if isinstance(value, dict) and evaluation.passed else {}
        same = known.get("lake") == tables.folder and known.get("ledger") == tables.ledger_id
        return {int(p): offset for p, offset in known["offsets"].items()} if same else {}
    return {}


def declared_check(pipeline: Pipeline, check: Check) -> dg.AssetChecksDefinition:
    """A check that the pipeline brings along. It guards what comes behind the sink, as the invariants do."""

    @dg.asset_check(asset=sink_keys(pipeline)[0], name=check.name, description=check.description, blocking=True)
    def evaluate(kafka: KafkaResource, spark: SparkResource) -> dg.AssetCheckResult:
        finding = told(lambda: check.evaluate(pipeline, spark.spark_session, kafka.connection()))
        return dg.AssetCheckResult(
            passed=finding.holds,
            severity=severity(finding),
            description=finding.detail,
            metadata={"evaluated": finding.evaluated, **examples(finding)},
        )

    return evaluate


def severity(finding: Finding) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if finding.severity == "warning" else dg.AssetCheckSeverity.ERROR


def evidence(finding: Finding, result: Verification) -> dict[str, Any]:
    return {
        "evaluated": finding.evaluated,
        "since_the_last_proof": result.incremental,
        **result.figures,
        **examples(finding),
        "partitions": partition_table(result.partitions),
    }


def partition_table(rows: Sequence[Mapping[str, int | None]]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(row)) for row in rows] or [dg.TableRecord({"partition": "none"})]
    )


def examples(finding: Finding) -> dict[str, dg.TableMetadataValue]:
    """The first counter-examples, if there are any."""
    rows = [dg.TableRecord({"example": example}) for example in finding.examples]
    return {"counter_examples": dg.MetadataValue.table(rows)} if rows else {}
