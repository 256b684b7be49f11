"""Errors about the user's function: what it raises, or returns instead of a DataFrame, with the line of code."""

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType

from eos_assets.declare.code_version import plain_function
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import Code, EosError
from eos_assets.kafka.offsets import OffsetRange, describe_ranges
from eos_assets.transform.spark_errors import INSTALLED, classify

#: Packages of ours whose lines are not the user's: they call the function, or the function calls them.
ENGINE = tuple(f"{Path(__file__).parents[1] / name}/" for name in ("declare", "transform", "state", "run", "verify"))
#: Packages whose errors name their class in the text, or carry the text of another error.
SPARK = ("pyspark", "py4j", "grpc")


@contextmanager
def planning(pipeline: Pipeline, ranges: Sequence[OffsetRange]) -> Iterator[None]:
    """Wrap a call of the user's function, and raise what it raises with the ranges and the line of code."""
    try:
        yield
    except EosError:
        raise
    except Exception as failure:
        reported = classify(failure)
        line = own_line(failure) or reported.line_of_code or definition(pipeline)
        problem = f"The transform of {pipeline.name} cannot be planned{in_ranges(pipeline, ranges)}"
        raise EosError(
            f"{problem}: {describe(failure)} ({line}). Nothing of this attempt was written.",
            "Correct the transform.",
        ) from failure


@contextmanager
def checking(pipeline: Pipeline, check: str) -> Iterator[None]:
    """Wrap a call of a check that the user declares, and raise what it raises with the line of code."""
    try:
        yield
    except EosError:
        raise
    except Exception as failure:
        reported = classify(failure)
        if reported.code is not Code.TRANSFORM_RAISED:  # a lost worker or broker is not an error of the check
            raise
        line = own_line(failure) or reported.line_of_code
        raise EosError(
            f"Check {check} of pipeline {pipeline.name} raises: {describe(failure)} ({line}).", "Correct the check."
        ) from failure


def check_frame(result: object, pipeline: Pipeline, ranges: Sequence[OffsetRange]) -> None:
    """Refuse a result of a stateless function that is not a DataFrame."""
    from pyspark.sql import DataFrame

    if type(result).__module__.partition(".")[0] == "pyarrow":
        raise EosError(
            f"The transform of {pipeline.name} returned Arrow data instead of a DataFrame ({definition(pipeline)}).",
            "Declare a function of Arrow batches with eos.arrow_pipeline.",
        )
    if not isinstance(result, DataFrame):
        raise wrong_result(type_name(result), "a DataFrame", pipeline, ranges)


def check_pair(result: object, pipeline: Pipeline, ranges: Sequence[OffsetRange]) -> None:
    """Refuse a result of a stateful function that is not a pair of DataFrames."""
    from pyspark.sql import DataFrame

    pair = result if isinstance(result, tuple) else (result,)
    if len(pair) != 2 or not all(isinstance(one, DataFrame) for one in pair):
        returned = f"({', '.join(map(type_name, pair))})" if isinstance(result, tuple) else type_name(result)
        raise wrong_result(returned, "outputs and changed state, two DataFrames", pipeline, ranges)


def wrong_result(returned: str, wanted: str, pipeline: Pipeline, ranges: Sequence[OffsetRange]) -> EosError:
    return EosError(
        f"The transform of {pipeline.name} returned {returned} instead of {wanted}{in_ranges(pipeline, ranges)}"
        f" ({definition(pipeline)}). Nothing of this attempt was written.",
        f"Return {wanted}{': a `return` may be missing' * (returned == 'None')}.",
    )


def type_name(value: object) -> str:
    return "None" if value is None else type(value).__name__


def in_ranges(pipeline: Pipeline, ranges: Sequence[OffsetRange]) -> str:
    return f" for {describe_ranges(pipeline.source.name, ranges)}" if ranges else ""


def describe(failure: Exception) -> str:
    """One line that describes an error of the user's function."""
    if type(failure).__module__.partition(".")[0] in SPARK:
        return classify(failure).message
    return f"{type(failure).__name__}: {failure}"


def own_line(failure: BaseException) -> str:
    """The last line of the user's code in the trace of an error."""
    frames = traceback.extract_tb(failure.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename for part in (*INSTALLED, *ENGINE))]
    return f"{own[-1].filename}, line {own[-1].lineno}, in {own[-1].name}: {own[-1].line}" if own else ""


def definition(pipeline: Pipeline) -> str:
    """The place where the user's function is defined."""
    function = plain_function(pipeline.fold or pipeline.transform)
    if not isinstance(function, FunctionType):
        return type(function).__name__
    code = function.__code__
    return f"{code.co_filename}, line {code.co_firstlineno}, in {code.co_name}"
