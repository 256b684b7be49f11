"""How a run fails in Dagster: with a remedy instead of a stack trace, and without retries that would not help."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from eos_assets.errors import EosError

#: The context of a step that may fail.
StepContext = dg.AssetExecutionContext | dg.AssetCheckExecutionContext | dg.OpExecutionContext
#: Dagster's tag for the number of times that it repeats a run; the default is in dagster.yaml.
MAX_RETRIES = "dagster/max_retries"


def refuse_retries(context: StepContext) -> None:
    """Keep Dagster from repeating this run. It ends with an error that has a remedy, or with a check that does not
    hold, and another run would end in the same way."""
    context.instance.add_run_tags(context.run.run_id, {MAX_RETRIES: "0"})


@contextmanager
def eos_errors_as_failures(context: StepContext) -> Iterator[None]:
    """Raise an EosError as a failure with its problem and remedy, without a stack trace and without retries."""
    try:
        yield
    except EosError as error:
        refuse_retries(context)
        raise dg.Failure(f"{error.problem} {error.remedy}", allow_retries=False) from error
