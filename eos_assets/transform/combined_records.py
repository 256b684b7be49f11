"""Refuses a transform that combines records: its result would depend on where the ranges of its runs are cut."""

import re
from collections.abc import Iterator

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.transform.spark_plan import Operator, SourcePlan

CUTS = re.compile(r"(?!WindowGroupLimit)\w*Limit|TakeOrderedAndProject|Sample")
WINDOWS = re.compile(r"(?!WindowGroupLimit)\w*Window\w*")  # that one is always below a window
AGGREGATES = re.compile(r"\w*Aggregate\w*|\w*Groups\w*|\w*Sessions")
JOINS = re.compile(r"\w*Join|CartesianProduct")

#: How an operator keeps each source record to itself: it groups by `origin`.
BY_ORIGIN = {
    WINDOWS: re.compile(r"windowspecdefinition\((?:\w+#\d+L?, )*origin#\d+, "),
    AGGREGATES: re.compile(r"^(?:Keys \[\d+\]|Arguments): \[(?:[^\[\]]*, )?origin#\d+[,\]]", re.MULTILINE),
}
KEYS = re.compile(r"^(?:Left|Right) keys \[\d+\]: \[(.*)\]$", re.MULTILINE)
ORIGIN = re.compile(r"origin#\d+")
STATEFUL = "declare the pipeline with @stateful, which keeps what it combined from run to run"

#: What a transform does that it must not, and the remedy.
Problem = tuple[str, str]


def refuse_combined_records(plan: SourcePlan, pipeline: Pipeline) -> None:
    """Refuse a plan that limits or samples records, or that combines them. A stateful pipeline combines by design.

    Args:
        plan: the plan of the transform's result.
        pipeline: whose transform it is.
    """
    finders = [find_limits]
    if not pipeline.stateful:
        finders += [find_untraceable_rows, find_combinations, find_joins]
    first = next((problem for find in finders for problem in find(plan)), None)
    if first:
        problem, remedy = first
        raise EosError(
            f"The transform of {pipeline.name} {problem}: its result depends on where a range is cut, and a run may "
            "end at any offset. Nothing was written.",
            remedy,
        )


def find_limits(plan: SourcePlan) -> Iterator[Problem]:
    for operator in plan.operators:
        if CUTS.fullmatch(operator.name):
            problem = f"limits or samples its records ({operator.name} in its plan)"
            yield problem, "Leave out limit(), offset() and sample()."


def find_untraceable_rows(plan: SourcePlan) -> Iterator[Problem]:
    """Find rows that the plan does not trace to the source."""
    if not plan.paths and not plan.empty:
        problem = "returns rows that Spark cannot follow back to the records (localCheckpoint(), toPandas(), rdd)"
        yield problem, "Leave it out. A function over batches is mapInArrow() or mapInPandas()."
    if plan.in_subquery:
        yield "reads all its records in a subquery", f"To combine records, {STATEFUL}."


def find_combinations(plan: SourcePlan) -> Iterator[Problem]:
    for operator in plan.operators:
        if combines(operator, WINDOWS):
            yield (
                f"uses a window function ({operator.name} in its plan)",
                f"To compare a record with those before it, {STATEFUL}; to number the outputs of one record, use "
                "posexplode() or partition the window by `origin`.",
            )
        if combines(operator, AGGREGATES) or takes_table(operator, plan):
            yield (
                f"combines records ({operator.name} in its plan, from groupBy, dropDuplicates or distinct)",
                f"To combine records, {STATEFUL}; to skip repeated records, declare @stateful with "
                "`Unique(by, within)`; to combine the rows of one record, group by `origin`.",
            )


def find_joins(plan: SourcePlan) -> Iterator[Problem]:
    """Find joins of the source with itself."""
    for operator in plan.operators:
        if operator.id in plan.meeting_points() and JOINS.fullmatch(operator.name) and not joins_by_origin(operator):
            yield (
                f"joins its records with each other ({operator.name} in its plan)",
                f"To compare a record with others, {STATEFUL}; to join the rows of one record, join on `origin`.",
            )


def combines(operator: Operator, kind: re.Pattern[str]) -> bool:
    return bool(kind.fullmatch(operator.name)) and not BY_ORIGIN[kind].search(operator.details)


def takes_table(operator: Operator, plan: SourcePlan) -> bool:
    """Whether a Python table function gets many records: then Spark brings them together by an exchange below it."""
    below = ([one.name for one in path[path.index(operator) :]] for path in plan.paths if operator in path)
    return operator.name.endswith("EvalPythonUDTF") and any("Exchange" in names for names in below)


def joins_by_origin(join: Operator) -> bool:
    """Whether each record meets only itself, because `origin` is a key on both sides."""
    left, right = [*KEYS.findall(join.details), "", ""][:2]
    pairs = zip(left.split(", "), right.split(", "), strict=False)
    return any(ORIGIN.fullmatch(one) and ORIGIN.fullmatch(other) for one, other in pairs)
