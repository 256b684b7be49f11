"""Keeps Dagster from repeating a failed run where that heals nothing."""

import dagster as dg

#: Dagster's tag for the number of times that it repeats a run; the default is in dagster.yaml.
MAX_RETRIES = "dagster/max_retries"


def refuse_retries(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext | dg.OpExecutionContext,
) -> None:
    """Let this run be the last one. Its failure is an error with a remedy, or a check that does not hold."""
    context.instance.add_run_tags(context.run.run_id, {MAX_RETRIES: "0"})
