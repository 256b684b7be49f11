"""How often Dagster repeats a step that failed, and how long it waits before that."""

import dagster as dg

MAX_RETRIES = 3
#: The delay doubles with each retry.
FIRST_DELAY_SECONDS = 10.0


def retry_policy() -> dg.RetryPolicy:
    """Repeat a step within its run. An error with a remedy and a failed check are not repeated: that heals neither."""
    return dg.RetryPolicy(max_retries=MAX_RETRIES, delay=FIRST_DELAY_SECONDS, backoff=dg.Backoff.EXPONENTIAL)
