"""Keeps each source partition whole and in order on the way to its task, whatever the transform's plan does."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.declare.pipeline import Pipeline
from eos_assets.sink.outcome import SPARK_SCHEMA
from eos_assets.sink.task import Task
from eos_assets.transform.combined_records import refuse_combined_records
from eos_assets.transform.spark_plan import SCAN, explain, source_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

#: Operators that keep one Spark partition one Kafka partition, in order. Any other one, known or not, may not.
NARROW = {
    "AdaptiveSparkPlan",
    "ArrowEvalPython",
    "BatchEvalPython",
    "BroadcastHashJoin",
    "BroadcastNestedLoopJoin",
    "CollectMetrics",
    "Filter",
    "Generate",
    "InputAdapter",
    "MapInArrow",
    "MapInPandas",
    "PythonMapInArrow",
    "Project",
    "WholeStageCodegen",
    SCAN,
}

BATCH_FUNCTIONS = {"MapInArrow", "MapInPandas", "PythonMapInArrow"}


def narrow_path(frame: "DataFrame", pipeline: Pipeline) -> list[str] | None:
    """The operators from a frame down to the source, if they keep each source partition whole; None if they may not.
    Refuses a plan that no repartitioning makes exact."""
    plan = source_plan(explain(frame), pipeline.source.name)
    refuse_combined_records(plan, pipeline)
    paths = [[operator.name for operator in path] for path in plan.paths]
    return paths[0] if len(paths) == 1 and set(paths[0]) <= NARROW else None


@dataclass(frozen=True)
class Aligned:
    """The outcomes of a task that gets each source partition whole and in order."""

    outcomes: "DataFrame"
    #: Whether the rows had to be repartitioned.
    shuffled: bool


def align_to_source(
    rows: "DataFrame", task: Task, pipeline: Pipeline, partitions: int, schema: "str | StructType" = SPARK_SCHEMA
) -> Aligned:
    """Apply a task to the rows of each source partition, whole and in order. They are repartitioned if the plan may not
    keep them together, and only sorted if it may change their order.

    Args:
        rows: the rows for the task.
        task: writes them.
        pipeline: whose rows they are.
        partitions: the number of source partitions that are read.
        schema: what the task returns.
    """
    # Changes of the state have a `store`, and come last.
    order = ["o_partition", *({"store"} & set(rows.columns)), "o_offset"]
    order += ["sequence"] if "sequence" in rows.columns else []
    outcomes = run_task(rows, task, schema)
    path = narrow_path(outcomes, pipeline)
    if path is None:
        repeatable = [*order, *(name for name in ("topic", "key", "value") if name in rows.columns)]
        whole = rows.repartition(max(1, partitions), "o_partition")
        return Aligned(run_task(whole.sortWithinPartitions(*repeatable), task, schema), shuffled=True)
    if "sequence" in rows.columns:
        outcomes = run_task(rows.sortWithinPartitions(*order), task, schema)
    elif may_reorder(path) and not pipeline.ordered:
        arrived = rows.selectExpr("*", "monotonically_increasing_id() AS arrived")
        outcomes = run_task(arrived.sortWithinPartitions(*order, "arrived").drop("arrived"), task, schema)
    return Aligned(outcomes, shuffled=False)


def may_reorder(path: list[str]) -> bool:
    """Whether a function over whole batches, beside our own task, may return rows in another order, or the rows of one
    record apart. A transaction could then end between them, and a late row would look like one that is missing."""
    return sum(node in BATCH_FUNCTIONS for node in path) > 1


def run_task(rows: "DataFrame", task: Task, schema: "str | StructType" = SPARK_SCHEMA) -> "DataFrame":
    """The outcomes of a task over these rows."""
    return rows.mapInArrow(task, schema)
