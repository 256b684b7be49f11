"""Refuses a transform that returns another result when it runs again: no proof could compare what it wrote.

On classic Spark the analyzed plan knows which expressions are not deterministic. A Connect session has only the plan
that it sends; there the functions are known by their names.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Functions whose result changes from call to call, or with the task that they run in.
RANDOM = (
    "rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id input_file_name "
    "input_file_block_start input_file_block_length reflect java_method try_reflect"
)
#: Functions whose result changes with the clock or the session.
CURRENT = (
    "now curdate current_date current_time current_timestamp localtimestamp current_timezone current_user user "
    "session_user current_catalog current_database current_schema current_path"
)
NAMES = frozenset(f"{RANDOM} {CURRENT}".split())
EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
AGGREGATE, SUBQUERY = "aggregate.AggregateFunction", "SubqueryExpression"
#: Without an argument, this function reads the clock.
CLOCK = "unix_timestamp"
#: Functions that SQL also calls without parentheses.
BARE = frozenset({"current_date", "current_time", "current_timestamp", "localtimestamp"})
#: Quoted texts, quoted names and comments, which hold no calls.
QUOTED = re.compile(
    r"""\b[rR](?:'[^']*'|"[^"]*")|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|--[^\n]*|/\*.*?\*/""", re.DOTALL
)
WORD = re.compile(r"(?<![\w.])([a-z_]\w*)\s*(\(\s*\)?)?", re.IGNORECASE)


def check_determinism(pipeline: Pipeline, records: "DataFrame", results: list["DataFrame"]) -> None:
    """Refuse a result that is not a function of the records alone, unless the pipeline declares that."""
    if not pipeline.deterministic:
        return
    for result in results:
        classic = hasattr(result, "_jdf")
        varying = find_in_analyzed_plan(result, records) if classic else find_in_sent_plan(result, records)
        if varying:
            or_declare = "" if pipeline.stateful else ", or declare deterministic=False: then no proof compares values"
            raise EosError(
                f"The transform of {pipeline.name} uses {varying}: another attempt would write another result, and no "
                "proof could compare it. Nothing was written.",
                f"Take ids and times from the record (`origin`, `timestamp`, a hash of `value`){or_declare}.",
            )


def find_in_analyzed_plan(result: "DataFrame", records: "DataFrame") -> str | None:
    """Find an expression in the plan of the result that is not deterministic. What is below the records is ours. An
    aggregate function counts as deterministic: only the order of its rows varies, and a fold must not depend on it."""
    jvm: Any = result.sparkSession._jvm
    current = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    aggregate, subquery = (jvm.java.lang.Class.forName(f"{EXPRESSIONS}.{name}") for name in (AGGREGATE, SUBQUERY))
    ours = records._jdf.queryExecution().analyzed()

    def varies(node: Any) -> bool:
        return not node.deterministic() or node.containsPattern(current)

    def in_plan(plan: Any) -> Iterator[str]:
        if varies(plan) and not plan.sameResult(ours):
            for child in items(plan.children()):
                yield from in_plan(child)
            for expression in items(plan.expressions()):
                yield from in_expression(expression)

    def in_expression(expression: Any) -> Iterator[str]:
        if varies(expression) and subquery.isInstance(expression):
            yield from in_plan(expression.plan())
        elif varies(expression):
            varying = [child for child in items(expression.children()) if varies(child)]
            for child in varying:
                yield from in_expression(child)
            if not varying and not aggregate.isInstance(expression):
                yield f"{str(expression.sql()).partition('(')[0]}()"

    return next(in_plan(result._jdf.queryExecution().analyzed()), None)


def items(seq: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    return (seq.apply(index) for index in range(seq.size()))


def find_in_sent_plan(result: "DataFrame", records: "DataFrame") -> str | None:
    """Find such an expression in the plan that a Connect session sends."""
    sent, ours = cast(Any, result)._plan, cast(Any, records)._plan
    return next(varying_functions(sent.to_proto(result.sparkSession.client), ours._plan_id), None)


def varying_functions(message: Any, ours: int) -> Iterator[str]:
    """The functions in a message and below it that are not deterministic, without those in the plan of this id."""
    kind = message.DESCRIPTOR.name
    if kind == "Relation" and message.common.plan_id == ours:
        return
    if kind in ("UnresolvedFunction", "CallFunction"):
        name = message.function_name.lower()
        if name in NAMES or (name == CLOCK and not message.arguments):
            yield f"{name}()"
    elif kind == "ExpressionString":
        yield from in_sql(message.expression)
    elif kind == "SQL":
        yield from in_sql(message.query)
    elif kind == "StatSampleBy":
        yield "sampleBy()"
    elif (
        kind in ("CommonInlineUserDefinedFunction", "CommonInlineUserDefinedTableFunction")
        and not message.deterministic
    ):
        yield f"{message.function_name}(), a user-defined function that is declared non-deterministic"
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for one in value if field.is_repeated else [value]:
                yield from varying_functions(one, ours)


def in_sql(text: str) -> Iterator[str]:
    for match in WORD.finditer(QUOTED.sub(" '' ", text)):
        name, opened = match.group(1).lower(), (match.group(2) or "").replace(" ", "")
        if (name in NAMES and opened) or name in BARE or (name == CLOCK and opened == "()"):
            yield f"{name}()"
