"""Classifies what Spark reports about a failed job. No other module reads Spark's texts.

Spark reports an error by its class and its condition, and those decide where they exist. Some failures of the JVM have
neither; they are recognised by the class names in Spark's own sentence. What a transform raises may quote a record, and
a record may hold anything, so the text of such an error decides nothing.
"""

import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from eos_assets.errors import Code

if TYPE_CHECKING:
    from pyspark.errors import QueryContext
    from pyspark.sql import Column

#: An expression of ours raises a code as `<mark><code>:<message>`. No record can contain the mark.
RAISED = "USER_RAISED_EXCEPTION"
MARK = f"eos:{secrets.token_hex(8)}:"
#: Conditions of Spark's Kafka reader: a range has changed since it was planned.
KAFKA = "KAFKA_"
UNREADABLE = "FAILED_READ_FILE"

#: The class of what ended a task comes after the place where it ran. A killed worker is a sentence instead.
TASK = re.compile(r"\(TID \d+\) \([^)]*\): ([\w.$]+(?:: Python worker exited unexpectedly[^.\n]*)?)")
LOST = re.compile(
    r"org\.apache\.spark\.SparkException: Python worker exited|ExecutorLostFailure|org\.apache\.spark\.shuffle\."
    r"|java\.lang\.OutOfMemoryError|TaskKilled|TaskResultLost"
)
#: The same for a job that ended without a failed task, in Spark's first line.
ENDED = re.compile(r"SparkContext was shut down|has failed the maximum allowable number of times")
#: What the client of Spark Connect reports when its server does not answer, or when another one answers in its place.
SERVER_LOST = re.compile(r"StatusCode\.UNAVAILABLE|incorrect server side session identifier")
#: Conditions of a server that does not know the session or the operation, and of a client that has noticed it.
SESSION_LOST = ("INVALID_HANDLE.", "NO_ACTIVE_SESSION")
CONNECTION = re.compile(
    r"(org\.apache\.kafka|java\.net|java\.io)\.[\w.]*Exception|java\.util\.concurrent\.TimeoutException"
)
DENIED = re.compile(
    r"(Topic|Group|TransactionalId|Cluster)AuthorizationException|(Sasl|Ssl)AuthenticationException[^\n]*"
)
#: A Python traceback: its frames are indented, and the first line after them that is not begins with the class.
TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n((?:[ \t].*\n|\n)*)(\S.*)")
FRAME = re.compile(r'^  File "([^"]+)", line (\d+), in (\S+)\n(?:    (\S.*))?', re.MULTILINE)
#: Frames of installed packages, and of their Cython code, are not the user's own.
INSTALLED = ("site-packages", "<frozen", ".pxi", ".pyx")
MISSING = ("ModuleNotFoundError: ", "ImportError: ")
#: Lines that begin like this name a place or a remedy instead of a cause.
NO_CAUSE = ("File", "at ", "org.", "JVM", "Remedy: ")
LONGEST = 500


@dataclass(frozen=True)
class SparkFailure:
    """What a failed Spark job reported: a code, one line, and the user's own line of code where Spark names it."""

    code: Code
    message: str
    line_of_code: str = ""

    @property
    def described(self) -> str:
        return f"{self.message} ({self.line_of_code})" if self.line_of_code else self.message


def raise_code(code: Code, message: "Column") -> "Column":
    """A column that fails the job with a code of ours."""
    from pyspark.sql import functions as f

    return f.raise_error(f.concat(f.lit(f"{MARK}{code}:"), message))


def classify(failure: BaseException) -> SparkFailure:
    """Classify a failed job: its code, and what to print about it."""
    from pyspark.errors import PySparkException, PythonException

    text = str(failure)
    if isinstance(failure, KafkaException):
        return SparkFailure(Code.KAFKA_UNAVAILABLE, text)
    if isinstance(failure, PythonException):
        return classify_python_error(text)
    condition = failure.getCondition() if isinstance(failure, PySparkException) else None
    if condition is None:
        return classify_jvm_error(text)
    if condition.startswith(SESSION_LOST):
        return SparkFailure(Code.SPARK_LOST, first_line(text))
    parameters = failure.getMessageParameters() or {}  # type: ignore[attr-defined]
    message = first_line(text)
    if condition == RAISED:
        return classify_plan_error(parameters.get("errorMessage", ""), message)
    if condition.startswith(KAFKA):
        return SparkFailure(Code.KAFKA_UNAVAILABLE, message)
    if condition.startswith(UNREADABLE):
        return SparkFailure(Code.FILE_UNREADABLE, message)
    return SparkFailure(Code.TRANSFORM_RAISED, message, query_location(failure.getQueryContext()))  # type: ignore[attr-defined]


def query_location(contexts: "list[QueryContext] | None") -> str:
    """The place of the expression that failed: a line of code, or the text of a SQL query."""
    from pyspark.errors import QueryContextType

    for context in contexts or []:
        if context.contextType() is not QueryContextType.DataFrame:
            return f"in SQL: {context.fragment()}"
        path, _, line = context.callSite().rpartition(":")
        if line.isdigit():  # else it is a line of Spark's own
            return f"{path}, line {line}: {context.fragment()}()"
    return ""


def unreadable_path(failure: BaseException) -> str:
    """The file that Spark could not read; empty if that is not what failed."""
    from pyspark.errors import PySparkException

    if not isinstance(failure, PySparkException) or not (failure.getCondition() or "").startswith(UNREADABLE):
        return ""
    return (failure.getMessageParameters() or {}).get("path", "")


def summarize(failure: BaseException) -> str:
    """One line that describes a failure."""
    return classify(failure).message


def classify_plan_error(raised: str, message: str) -> SparkFailure:
    """Classify what an expression raised: a code of ours, or else an error of the transform."""
    if raised.startswith(MARK):
        code, _, text = raised.removeprefix(MARK).partition(":")
        return SparkFailure(Code(code), text)
    return SparkFailure(Code.TRANSFORM_RAISED, message)


def classify_python_error(text: str) -> SparkFailure:
    """Classify an error of a Python worker. Our own tasks return their errors, so it is the transform's."""
    match = TRACEBACK.search(text)
    if match is None:
        return SparkFailure(Code.TRANSFORM_RAISED, first_line(text))
    message = match.group(2)[:LONGEST]
    code = Code.MODULE_MISSING if message.startswith(MISSING) else Code.TRANSFORM_RAISED
    return SparkFailure(code, message, line_of_code(match.group(1)))


def classify_jvm_error(text: str) -> SparkFailure:
    """Classify an error that has neither a class nor a condition in Python."""
    if SERVER_LOST.search("\n".join(text.splitlines()[:3])):
        return SparkFailure(Code.SPARK_LOST, "the Spark Connect server does not answer, or does not know the session")
    task = TASK.search(text)
    kind = task.group(1) if task else text
    if LOST.match(kind) or ENDED.search(text.partition("\n")[0]):
        return SparkFailure(Code.WORKER_LOST, kind[:LONGEST] if task else first_line(text))
    if (not task or kind.startswith("org.apache.")) and (denied := DENIED.search(text)):
        line = next(line for line in text.splitlines() if denied.group(0) in line)
        code = Code.AUTHENTICATION_FAILED if denied.group(2) else Code.PERMISSION_DENIED
        return SparkFailure(code, line.strip()[:LONGEST])
    code = Code.KAFKA_UNAVAILABLE if CONNECTION.search(kind) else Code.TRANSFORM_RAISED
    return SparkFailure(code, last_cause(text))


def line_of_code(frames: str) -> str:
    """The last frame outside the installed packages, or else the last one."""
    frames_by_path = [
        (path, f"{path}, line {number}, in {name}: {code}".rstrip(": "))
        for path, number, name, code in FRAME.findall(frames)
    ]
    own = [line for path, line in frames_by_path if not any(part in path for part in INSTALLED)]
    return (own or [line for _, line in frames_by_path] or [""])[-1]


def last_cause(text: str) -> str:
    """The last line that names a cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if ": " in line and not line.startswith(NO_CAUSE)]
    return (causes or lines or ["no message"])[-1][:LONGEST]


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")[:LONGEST]
