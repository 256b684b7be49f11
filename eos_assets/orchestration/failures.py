"""How an error with a remedy appears in Dagster."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from eos_assets.errors import EosError
from eos_assets.orchestration.retries import refuse_retries


@contextmanager
def eos_errors_as_failures(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext | dg.OpExecutionContext,
) -> Iterator[None]:
    """Raise an EosError as a failure with its problem and remedy instead of a stack trace, and without retries."""
    try:
        yield
    except EosError as error:
        refuse_retries(context)
        raise dg.Failure(f"{error.problem} {error.remedy}", allow_retries=False) from error
