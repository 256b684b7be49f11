"""The asset checks of a pipeline: its invariants, its audit tables, and the checks that it declares."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from eos_assets.audit.check import compare_with_ledger
from eos_assets.audit.tables import AuditTables
from eos_assets.declare.check import Check, Finding
from eos_assets.declare.pipeline import Pipeline
from eos_assets.orchestration.failures import eos_errors_as_failures, refuse_retries
from eos_assets.orchestration.keys import sink_keys, table_key
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.verify.findings import Verification
from eos_assets.verify.state_checker import NAME as STATE_NAME
from eos_assets.verify.verify import verify_pipeline

#: Name → description, and whether a failure blocks the audit tables and the downstream assets.
INVARIANTS = {
    "no_duplicates": ("No output of a source record is visible twice, and no sink record has two origins.", True),
    "none_missing": ("Every source record below the position has an output, a dead letter or a skip.", True),
    "none_invented": ("Every visible sink record has a committed, visible origin.", True),
    "ordered_within_partition": ("Origins rise with the sink offset, per source and sink partition.", True),
    "routed_correctly": ("Every record is in the partition of its key, or in the one that the transform set.", True),
    "ledger_tiles_source": ("The ledger covers the source with no gap and no overlap.", True),
    "ledger_matches_sink": ("Counts and digests in the ledger equal those of the sink.", True),
    "offsets_match_ledger": ("The committed group offset is the end of the ledger.", True),
    "values_recompute": ("Running the transform again, on other ranges, gives the records of the sink.", True),
    "source_is_unique": ("No business key occurs twice in the source.", False),
    "no_open_transactions": ("No transaction holds back the last stable offset for longer than its timeout.", False),
}
#: The invariant of pipelines that declare `unique`.
UNIQUE_NAME = "source_is_unique"
STATE_INVARIANT = ("Folding the source again gives the state that the changelogs hold.", True)
AUDIT_CHECK = "audit_matches_ledger"
#: The metadata of an evaluation that names the tables, the ledger, and the offsets up to which it compared them.
COMPARED = "compared"
#: The last evaluation is among this number of events: an active run may have added planned evaluations after it.
RECENT_EVENTS = 3


def invariants(pipeline: Pipeline) -> dict[str, tuple[str, bool]]:
    """The invariants of a pipeline, which one verification proves together.

    `values_recompute` is among them with `deterministic=False`, too: it is reported as not evaluated, because what such
    a pipeline wrote is not compared with its transform.
    """
    chosen = {name: check for name, check in INVARIANTS.items() if name != UNIQUE_NAME or pipeline.unique}
    return {**chosen, **({STATE_NAME: STATE_INVARIANT} if pipeline.stateful else {})}


class CheckConfig(dg.Config):
    """The options of an evaluation."""

    full: bool = Field(default=False, description="Check all retained records, not only those since the last proof.")


def invariant_checks(pipeline: Pipeline) -> dg.AssetChecksDefinition:
    """The invariants of a pipeline as checks of its sink. One scan of the topics evaluates all of them."""
    key = sink_keys(pipeline)[0]
    specs = [
        dg.AssetCheckSpec(name, asset=key, description=description, blocking=blocking)
        for name, (description, blocking) in invariants(pipeline).items()
    ]

    @dg.multi_asset_check(specs=specs, name=f"{pipeline.name}_invariants", can_subset=True)
    def evaluate(
        context: dg.AssetCheckExecutionContext,
        config: CheckConfig,
        kafka: KafkaResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[dg.AssetCheckResult]:
        address = lake.address() if pipeline.stateful else None
        with eos_errors_as_failures(context):
            result = verify_pipeline(pipeline, spark.spark_session, kafka.connection(), full=config.full, lake=address)
        if not result.holds:
            refuse_retries(context)
        for finding in result.findings:
            if dg.AssetCheckKey(key, finding.name) not in context.selected_asset_check_keys:
                continue
            yield dg.AssetCheckResult(
                passed=finding.holds,
                asset_key=key,
                check_name=finding.name,
                severity=severity(finding),
                description=finding.detail,
                metadata=finding_metadata(finding, result),
            )

    return evaluate


def audit_check(pipeline: Pipeline) -> dg.AssetChecksDefinition:
    """The check that compares the audit tables with the ledger."""

    @dg.asset_check(
        asset=table_key(pipeline, "audit_transactions"),
        name=AUDIT_CHECK,
        description="The Delta tables hold what the ledger records.",
        additional_deps=[table_key(pipeline, "audit_deliveries")],
    )
    def evaluate(
        context: dg.AssetCheckExecutionContext,
        config: CheckConfig,
        kafka: KafkaResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> dg.AssetCheckResult:
        tables = AuditTables(pipeline, spark.spark_session, kafka.connection(), lake.address())
        with eos_errors_as_failures(context):
            start = {} if config.full else last_compared(context.instance, audit_check_key(pipeline), tables)
            comparison = compare_with_ledger(tables, start)
        finding = comparison.finding
        if not finding.holds:
            refuse_retries(context)
        return dg.AssetCheckResult(
            passed=finding.holds,
            severity=severity(finding),
            description=finding.detail,
            metadata={
                "evaluated": finding.evaluated,
                "since_the_last_proof": bool(start),
                COMPARED: {"lake": tables.folder, "ledger": tables.ledger_id, "offsets": comparison.reached},
                **counter_examples(finding),
                "partitions": partition_table(comparison.partitions),
            },
        )

    return evaluate


def audit_check_key(pipeline: Pipeline) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(table_key(pipeline, "audit_transactions"), AUDIT_CHECK)


def last_compared(instance: dg.DagsterInstance, key: dg.AssetCheckKey, tables: AuditTables) -> dict[int, int]:
    """The ledger offsets up to which the last evaluation compared these tables, if it passed."""
    for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=RECENT_EVENTS):
        event = record.event.dagster_event if record.event else None
        if event is None or event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            continue
        evaluation = event.asset_check_evaluation_data
        value = evaluation.metadata[COMPARED].value if COMPARED in evaluation.metadata else None
        compared: dict[str, Any] = value if isinstance(value, dict) and evaluation.passed else {}
        same = compared.get("lake") == tables.folder and compared.get("ledger") == tables.ledger_id
        return {int(p): offset for p, offset in compared["offsets"].items()} if same else {}
    return {}


def declared_check(pipeline: Pipeline, check: Check) -> dg.AssetChecksDefinition:
    """A check that the pipeline declares."""

    @dg.asset_check(
        asset=sink_keys(pipeline)[0], name=check.name, description=check.description, blocking=check.blocking
    )
    def evaluate(
        context: dg.AssetCheckExecutionContext, kafka: KafkaResource, spark: SparkResource
    ) -> dg.AssetCheckResult:
        with eos_errors_as_failures(context):
            finding = check.evaluate(pipeline, spark.spark_session, kafka.connection())
        if not finding.holds:
            refuse_retries(context)
        return dg.AssetCheckResult(
            passed=finding.holds,
            severity=severity(finding),
            description=finding.detail,
            metadata={"evaluated": finding.evaluated, **counter_examples(finding)},
        )

    return evaluate


def severity(finding: Finding) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if finding.severity == "warning" else dg.AssetCheckSeverity.ERROR


def finding_metadata(finding: Finding, result: Verification) -> dict[str, Any]:
    return {
        "evaluated": finding.evaluated,
        "since_the_last_proof": result.incremental,
        **({"nothing_new": result.nothing_new} if result.nothing_new else {}),
        **result.figures,
        **counter_examples(finding),
        "partitions": partition_table(result.partitions),
    }


def partition_table(rows: Sequence[Mapping[str, int | None]]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(row)) for row in rows] or [dg.TableRecord({"partition": "none"})]
    )


def counter_examples(finding: Finding) -> dict[str, dg.TableMetadataValue]:
    """The first counter-examples of a check that does not hold."""
    rows = [dg.TableRecord({"example": example}) for example in finding.examples]
    return {"counter_examples": dg.MetadataValue.table(rows)} if rows else {}
