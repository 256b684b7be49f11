"""Whether a plan keeps each source partition whole and in order; if not, its rows are brought back."""

import contextlib
import io
import re
import threading
from typing import TYPE_CHECKING

from eos_assets.errors import EosError
from eos_assets.exactly_once.outcome import SPARK_SCHEMA
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.exactly_once.tasks import Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCAN = "Scan KafkaRelation"
#: Standard output belongs to the whole process: two runs at once must not read each other's plans.
EXPLAINING = threading.Lock()

#: Nodes through which one Spark partition stays one Kafka partition, in order. Anything else, known or not, does not.
NARROW = {
    "AdaptiveSparkPlan",
    "ArrowEvalPython",
    "BatchEvalPython",
    "BroadcastHashJoin",
    "BroadcastNestedLoopJoin",
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

#: Nodes whose result depends on which records happen to be in the range: no repartitioning makes them exact. A table
#: that is joined may have them.
REFUSED = {"CollectLimit", "GlobalLimit", "LocalLimit", "TakeOrderedAndProject", "Sample"}


def nodes_above_source(explained: str, source: str) -> list[list[str]]:
    """For each scan of the source topic, the nodes from the root of the physical plan down to it. The tree of nodes
    ends with the first empty line; what follows tells of each node what the user wrote, which may look like anything.
    """
    paths, stack = [], []  # type: ignore[var-annotated]
    of_source = re.compile(rf"strategy=Assign\[{re.escape(source)}-\d+[,\]]")  # how `read_ranges` reads it
    tree = explained.strip().split("\n\n")[0]
    for line in tree.splitlines():
        match = re.match(r"^([\s:]*(?:[+:]- )?)(?:\* )?(Scan \w+|\w+)", line)
        if match is None:
            continue
        depth, name = len(match.group(1)), match.group(2)
        while stack and stack[-1][0] >= depth:
            stack.pop()
        stack.append((depth, name))
        if name == SCAN and of_source.search(line):
            paths.append([node for _, node in stack])
    return paths


def physical_plan(df: "DataFrame") -> str:
    """The explain text: the one view of the plan that classic and Connect sessions share."""
    text = io.StringIO()
    with EXPLAINING, contextlib.redirect_stdout(text):
        df.explain(mode="formatted")
    return text.getvalue()


def narrow_path(frame: "DataFrame", pipeline: Pipeline) -> list[str] | None:
    """The nodes from a frame down to the source, if they keep each source partition whole; None if they may not. One
    that no repartitioning makes exact is refused."""
    paths = nodes_above_source(physical_plan(frame), pipeline.source.name)
    for node in sorted(REFUSED & {name for path in paths for name in path}):
        raise EosError(
            f"The transform of {pipeline.name} uses {node}: its result depends on where a range is cut.",
            "A transform is a function of one record: leave out limit() and sample().",
        )
    return paths[0] if len(paths) == 1 and set(paths[0]) <= NARROW else None


def kept_whole(rows: "DataFrame", task: Task, pipeline: Pipeline, partitions: int) -> "DataFrame":
    """The outcomes of a task that gets the rows with each source partition whole and in order, brought back from a
    shuffle where there was one. Where there was none, the plan that was looked at is the one that runs.

    Args:
        rows: what travels to the task.
        task: writes them.
        pipeline: whose they are.
        partitions: how many of the source are read.
    """
    order = ["o_partition", *({"store"} & set(rows.columns)), "o_offset"]  # changes of the state, the last ones
    order += ["sequence"] if "sequence" in rows.columns else []
    frame = outcomes_of(rows, task)
    path = narrow_path(frame, pipeline)
    if path is None:
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
