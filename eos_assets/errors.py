"""Errors with a remedy for the user, and the codes by which a Spark task reports its outcome to the driver.

`docs/error-codes.md` holds the table of codes; a test compares it with this module.
"""

from dataclasses import dataclass
from enum import StrEnum


class EosError(Exception):
    """A problem with its remedy. The command line prints both and no stack trace."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\nRemedy: {self.remedy}"


class Reaction(StrEnum):
    """Whether the driver retries after a code, in the words of the table."""

    DONE = "no: nothing is left to do"
    WAIT = "no: the run waits for the newer attempt"
    RETRY = "yes"
    ISOLATE = "no: the run stops, or isolates the record"
    STOP = "no: the run stops"


class Code(StrEnum):
    """The outcome of a source partition, or of a whole Spark job."""

    COMMITTED = "committed"
    ALREADY_DONE = "already_done"
    FENCED = "fenced"
    STALE_PLAN = "stale_plan"
    TRANSACTION_ABORTED = "transaction_aborted"
    TRANSACTION_TIMED_OUT = "transaction_timed_out"
    COMMIT_UNKNOWN = "commit_unknown"
    TOPIC_UNREADABLE = "topic_unreadable"
    INPUT_INCOMPLETE = "input_incomplete"
    INJECTED_FAILURE = "injected_failure"
    UNEXPECTED = "unexpected"
    GAVE_UP = "gave_up"
    OFFSETS_MOVED = "offsets_moved"
    TRANSACTION_HANGS = "transaction_hangs"
    CORRUPT_ENTRY = "corrupt_entry"
    PERMISSION_DENIED = "permission_denied"
    AUTHENTICATION_FAILED = "authentication_failed"
    RECORD_TOO_LARGE = "record_too_large"
    RECORD_REJECTED = "record_rejected"
    RECORD_LEFT_OUT = "record_left_out"
    ROW_WITHOUT_ORIGIN = "row_without_origin"
    ROWS_OUT_OF_ORDER = "rows_out_of_order"
    INVALID_RESULT = "invalid_result"
    SOURCE_TRUNCATED = "source_truncated"
    MISPLACED_KEY = "misplaced_key"
    TRANSFORM_RAISED = "transform_raised"
    MODULE_MISSING = "module_missing"
    WORKER_LOST = "worker_lost"
    KAFKA_UNAVAILABLE = "kafka_unavailable"
    SPARK_LOST = "spark_lost"
    FILE_UNREADABLE = "file_unreadable"
    BATCH_TOO_LARGE = "batch_too_large"


@dataclass(frozen=True)
class Meaning:
    """One row of the table of codes."""

    reaction: Reaction
    #: The outcome in the report of a run.
    outcome: str
    meaning: str
    remedy: str


MEANINGS = {
    Code.COMMITTED: Meaning(Reaction.DONE, "committed", "the range is written and committed", "none needed"),
    Code.ALREADY_DONE: Meaning(
        Reaction.DONE, "already_done", "an earlier attempt had committed the whole range", "none needed"
    ),
    Code.FENCED: Meaning(
        Reaction.WAIT,
        "fenced",
        "a newer attempt owns the transactional id; it continues from the last commit",
        "none needed; do not run one pipeline twice at the same time",
    ),
    Code.STALE_PLAN: Meaning(
        Reaction.RETRY, "stale", "the plan starts after the committed position, or its state is older", "none needed"
    ),
    Code.TRANSACTION_ABORTED: Meaning(
        Reaction.RETRY, "failed", "a Kafka error aborted the transaction", "check the brokers if it persists"
    ),
    Code.TRANSACTION_TIMED_OUT: Meaning(
        Reaction.RETRY,
        "failed",
        "the broker aborted a transaction that was open for longer than `Batching.timeout_ms`",
        "declare a longer timeout or smaller transactions",
    ),
    Code.COMMIT_UNKNOWN: Meaning(
        Reaction.RETRY,
        "failed",
        "the producer failed, or the result of a commit is unknown; the ledger decides in the next attempt",
        "check the brokers if it persists",
    ),
    Code.TOPIC_UNREADABLE: Meaning(
        Reaction.RETRY,
        "failed",
        "the brokers did not answer, returned no more records, or deleted some of the range",
        "check with `eos doctor`",
    ),
    Code.INPUT_INCOMPLETE: Meaning(
        Reaction.RETRY, "failed", "Spark ended the rows of a task before it had sent all", "see Spark's own error"
    ),
    Code.INJECTED_FAILURE: Meaning(Reaction.RETRY, "failed", "an injected failure", "none needed"),
    Code.UNEXPECTED: Meaning(
        Reaction.RETRY, "failed", "an error without a code in the writer", "report it with its message"
    ),
    Code.GAVE_UP: Meaning(
        Reaction.STOP,
        "failed",
        "the last of `max_attempts` attempts failed, and the range is not complete",
        "correct what the last failure reports, and run again",
    ),
    Code.OFFSETS_MOVED: Meaning(
        Reaction.STOP,
        "refused",
        "ledger and group offset differ",
        "set the group offset back to the ledger's position with Kafka's tools while nothing runs",
    ),
    Code.TRANSACTION_HANGS: Meaning(
        Reaction.STOP,
        "refused",
        "the brokers keep a transaction open that its coordinator has ended, or another producer one with offsets of "
        "this group",
        "find it with `kafka-transactions.sh find-hanging`, end it, and run again",
    ),
    Code.CORRUPT_ENTRY: Meaning(
        Reaction.STOP,
        "refused",
        "a message in the ledger or provenance topic is not one of this pipeline's",
        "restore the topic, or declare the next generation with a new sink",
    ),
    Code.PERMISSION_DENIED: Meaning(
        Reaction.STOP, "refused", "a permission is missing on the brokers", "grant what `eos acls` prints"
    ),
    Code.AUTHENTICATION_FAILED: Meaning(
        Reaction.STOP,
        "refused",
        "the brokers rejected the credentials or the certificate of Spark's Kafka client",
        "check the `EOS_KAFKA_…` settings",
    ),
    Code.RECORD_TOO_LARGE: Meaning(
        Reaction.STOP,
        "failed",
        "an output is larger than the topic accepts",
        "raise `max.message.bytes` of the topic, or return an `error` for such records",
    ),
    Code.RECORD_REJECTED: Meaning(
        Reaction.STOP, "failed", "the brokers never accept an output like this one", "change the output or the topic"
    ),
    Code.RECORD_LEFT_OUT: Meaning(
        Reaction.STOP,
        "failed",
        "the transform returned no row for a source record",
        "return a row with `skip = true`, or declare `drops=True`",
    ),
    Code.ROW_WITHOUT_ORIGIN: Meaning(
        Reaction.STOP,
        "failed",
        "a row of the result has a null `origin`",
        "filter such rows out, or join with `left`",
    ),
    Code.ROWS_OUT_OF_ORDER: Meaning(
        Reaction.STOP,
        "failed",
        "the rows of a pipeline that declares `ordered=True` are out of order",
        "remove `ordered=True`, or keep the order of the records",
    ),
    Code.INVALID_RESULT: Meaning(
        Reaction.STOP,
        "failed",
        "a row of the result cannot be written: sequence, topic, partition, header, timestamp, digest or state",
        "correct what the message reports",
    ),
    Code.SOURCE_TRUNCATED: Meaning(
        Reaction.STOP, "failed", "a source record was deleted before its dead letter was written", "run again"
    ),
    Code.MISPLACED_KEY: Meaning(
        Reaction.STOP,
        "failed",
        "a key is in a partition where it does not belong, so its state is elsewhere",
        "correct the producer of the source, or declare `on_error='isolate'`",
    ),
    Code.TRANSFORM_RAISED: Meaning(
        Reaction.ISOLATE,
        "failed",
        "the transform raised",
        "correct it, return an `error` for such records, or declare `on_error='isolate'`",
    ),
    Code.MODULE_MISSING: Meaning(
        Reaction.STOP,
        "failed",
        "the transform imports a module that the Spark workers do not have",
        "install it there, or ship it with `EOS_PY_FILES`",
    ),
    Code.WORKER_LOST: Meaning(
        Reaction.RETRY, "failed", "a Python worker or an executor died", "check its memory if it persists"
    ),
    Code.KAFKA_UNAVAILABLE: Meaning(
        Reaction.RETRY, "failed", "Spark's Kafka client lost its connection, or its range changed", "check the brokers"
    ),
    Code.SPARK_LOST: Meaning(
        Reaction.STOP,
        "failed",
        "the Spark Connect server ended, or was started again and no longer has the session of the run",
        "run again: the next run has a session of its own, and continues after the last commit",
    ),
    Code.FILE_UNREADABLE: Meaning(
        Reaction.RETRY,
        "failed",
        "a file of the state's snapshot cannot be read; the next attempt reads the changelog instead",
        "none needed; the snapshot is written again",
    ),
    Code.BATCH_TOO_LARGE: Meaning(
        Reaction.RETRY,
        "failed",
        "a record is too large for unmeasured Arrow batches; the job runs again with measured ones",
        "none needed",
    ),
}


class TaskError(Exception):
    """An error in a Spark task, with its code. The task returns it to the driver as an outcome, or raises it if it is
    retriable and Spark has another attempt at the task."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type["TaskError"], tuple[Code, str]]:
        return TaskError, (self.code, str(self))
