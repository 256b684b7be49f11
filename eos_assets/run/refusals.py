"""The errors that end a run because no retry can succeed."""

from eos_assets.context import PipelineContext
from eos_assets.errors import MEANINGS, Code, EosError
from eos_assets.kafka.auth_errors import CREDENTIALS_REMEDY, grant_remedy


def refusal(context: PipelineContext, code: Code, message: str, described: str) -> EosError:
    """The error for a code that stops the whole job.

    Args:
        context: the pipeline and where it runs.
        code: what happened.
        message: one line about it.
        described: the same with the user's own line of code, where it is known.
    """
    principal, name = context.kafka.security.principal, context.pipeline.name
    if code is Code.PERMISSION_DENIED:
        return EosError(
            f"{principal} lacks a permission that Spark's reader needs: {message}.",
            grant_remedy(principal, name),
        )
    if code is Code.AUTHENTICATION_FAILED:
        return EosError(f"The brokers rejected Spark's Kafka client: {message}.", CREDENTIALS_REMEDY)
    if code is Code.MODULE_MISSING:
        return EosError(
            f"The transform of {name} imports a module that the Spark workers do not have: {described}. No record "
            "is the cause, so none was isolated.",
            "Install it there, or ship it with EOS_PY_FILES.",
        )
    if code is Code.MISPLACED_KEY:
        return EosError(
            f"{name}: {message}. State is kept in the partition of its key, so the source must be keyed by the state's "
            "key, as Kafka's Java client does it. No output of such a record was written.",
            "Correct the producer of the source, or add a pipeline that sets the keys, or declare on_error='isolate' "
            "to write such records as dead letters.",
        )
    remedy = MEANINGS[code].remedy
    return EosError(f"{name}: {MEANINGS[code].meaning}: {described}", f"{remedy[:1].upper()}{remedy[1:]}.")
