"""Whether a plan keeps each source partition whole and in order; if not, its rows are brought back."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from eos_assets.declare.pipeline import Pipeline
from eos_assets.sink.outcome import SPARK_SCHEMA
from eos_assets.sink.task import Task
from eos_assets.transform.combined_records import refuse_wrong
from eos_assets.transform.spark_plan import SCAN, explained, source_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Operators through which one Spark partition stays one Kafka partition, in order. No other one, known or not, does so.
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


#: Measured with benchmarks/shuffle.py.
SHUFFLED = (
    "The plan of {} does not keep the records of each source partition together and in order, so a run sorts all rows "
    "of a range before it writes the first: it takes about twice as long as a transform without a shuffle. Leave out "
    "repartition(), coalesce(), union() and orderBy(), and join small tables with broadcast()."
)


def narrow_path(frame: "DataFrame", pipeline: Pipeline) -> list[str] | None:
    """The operators from a frame down to the source, if they keep each source partition whole; None if they may not.
    What no repartitioning makes exact is refused."""
    plan = source_plan(explained(frame), pipeline.source.name)
    refuse_wrong(plan, pipeline)
    paths = [[operator.name for operator in path] for path in plan.paths]
    return paths[0] if len(paths) == 1 and set(paths[0]) <= NARROW else None


def kept_whole(
    rows: "DataFrame", task: Task, pipeline: Pipeline, partitions: int, report: Callable[[str], None] = lambda _: None
) -> "DataFrame":
    """The outcomes of a task that gets the rows with each source partition whole and in order, brought back from a
    shuffle where there was one. Where there was none, the plan that was looked at is the one that runs.

    Args:
        rows: what travels to the task.
        task: writes them.
        pipeline: whose they are.
        partitions: how many of the source are read.
        report: gets a sentence about a shuffle that a stateless transform could do without.
    """
    order = ["o_partition", *({"store"} & set(rows.columns)), "o_offset"]  # changes of the state, the last ones
    order += ["sequence"] if "sequence" in rows.columns else []
    frame = outcomes_of(rows, task)
    path = narrow_path(frame, pipeline)
    if path is None:
        if not pipeline.stateful:
            report(SHUFFLED.format(pipeline.name))
        repeatable = [*order, *(name for name in ("topic", "key", "value") if name in rows.columns)]
        whole = rows.repartition(max(1, partitions), "o_partition")
        return outcomes_of(whole.sortWithinPartitions(*repeatable), task)
    if "sequence" in rows.columns:
        return outcomes_of(rows.sortWithinPartitions(*order), task)
    if may_reorder(path) and not pipeline.ordered:
        arrived = rows.selectExpr("*", "monotonically_increasing_id() AS arrived")
        return outcomes_of(arrived.sortWithinPartitions(*order, "arrived").drop("arrived"), task)
    return frame


def may_reorder(path: list[str]) -> bool:
    """Whether a function over whole batches, beside our own task, may give rows in another order, or the rows of one
    record apart from each other: a slice could end between them, and nobody could tell a late row from none."""
    return sum(node in BATCH_FUNCTIONS for node in path) > 1


def outcomes_of(rows: "DataFrame", task: Task) -> "DataFrame":
    return rows.mapInArrow(task, SPARK_SCHEMA)
