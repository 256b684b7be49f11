"""The one place that reads what Spark reports about a failed job, and gives it a code.

Spark reports an error by its class and its condition, and those are used wherever there are any. Some failures of the
JVM have neither; they are recognised by the class names in Spark's own sentence. What a transform raises may quote a
record, and a record may hold anything, so the text of such an error decides nothing.
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

#: How an expression of ours in a plan raises a code: `<mark><code>:<message>`. No record can know the mark.
RAISED = "USER_RAISED_EXCEPTION"
MARK = f"eos:{secrets.token_hex(8)}:"
#: Conditions of Spark's Kafka reader: a range is no longer what it was when it was planned.
KAFKA = "KAFKA_"
UNREADABLE = "FAILED_READ_FILE"

#: What ended a task follows where it ran. A worker that was killed has no class of its own.
TASK = re.compile(r"\(TID \d+\) \([^)]*\): ([\w.$]+(?:: Python worker exited unexpectedly[^.\n]*)?)")
LOST = re.compile(
    r"org\.apache\.spark\.SparkException: Python worker exited|ExecutorLostFailure|org\.apache\.spark\.shuffle\."
    r"|java\.lang\.OutOfMemoryError|TaskKilled|TaskResultLost"
)
#: The same where the whole job ended, in Spark's first line.
ENDED = re.compile(
    r"SparkContext was shut down|has failed the maximum allowable number of times|StatusCode\.UNAVAILABLE"
)
CONNECTION = re.compile(
    r"(org\.apache\.kafka|java\.net|java\.io)\.[\w.]*Exception|java\.util\.concurrent\.TimeoutException"
)
DENIED = re.compile(
    r"(Topic|Group|TransactionalId|Cluster)AuthorizationException|(Sasl|Ssl)AuthenticationException[^\n]*"
)
#: A Python traceback: its frames are indented, and the first line after them that is not begins with the class.
TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n((?:[ \t].*\n|\n)*)(\S.*)")
FRAME = re.compile(r'^  File "([^"]+)", line (\d+), in (\S+)\n(?:    (\S.*))?', re.MULTILINE)
#: Frames of installed packages are not the user's own.
INSTALLED = ("site-packages", "<frozen")
MISSING = ("ModuleNotFoundError: ", "ImportError: ")
#: Lines that name a place or a remedy instead of a cause.
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
    """The code of a failed job, and what to print of it."""
    from pyspark.errors import PySparkException, PythonException

    text = str(failure)
    if isinstance(failure, KafkaException):
        return SparkFailure(Code.KAFKA_UNAVAILABLE, text)
    if isinstance(failure, PythonException):
        return of_python(text)
    condition = failure.getCondition() if isinstance(failure, PySparkException) else None
    if condition is None:
        return of_the_jvm(text)
    parameters = failure.getMessageParameters() or {}  # type: ignore[attr-defined]
    message = first_line(text)
    if condition == RAISED:
        return of_a_plan(parameters.get("errorMessage", ""), message)
    if condition.startswith(KAFKA):
        return SparkFailure(Code.KAFKA_UNAVAILABLE, message)
    if condition.startswith(UNREADABLE):
        return SparkFailure(Code.FILE_UNREADABLE, message)
    return SparkFailure(Code.TRANSFORM_RAISED, message, in_the_query(failure.getQueryContext()))  # type: ignore[attr-defined]


def in_the_query(contexts: "list[QueryContext] | None") -> str:
    """Where the expression that failed was written: a line of code, or the text in a SQL query."""
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


def brief(failure: BaseException) -> str:
    """One line that describes a failure."""
    return classify(failure).message


def of_a_plan(raised: str, message: str) -> SparkFailure:
    """A code of ours that an expression raised, or else what the transform raised."""
    if raised.startswith(MARK):
        code, _, words = raised.removeprefix(MARK).partition(":")
        return SparkFailure(Code(code), words)
    return SparkFailure(Code.TRANSFORM_RAISED, message)


def of_python(text: str) -> SparkFailure:
    """An error of a Python worker. Our own tasks return theirs, so it is the transform's."""
    match = TRACEBACK.search(text)
    if match is None:
        return SparkFailure(Code.TRANSFORM_RAISED, first_line(text))
    message = match.group(2)[:LONGEST]
    code = Code.MODULE_MISSING if message.startswith(MISSING) else Code.TRANSFORM_RAISED
    return SparkFailure(code, message, line_of_code(match.group(1)))


def of_the_jvm(text: str) -> SparkFailure:
    """An error with neither class nor condition of its own in Python."""
    task = TASK.search(text)
    kind = task.group(1) if task else text
    if LOST.match(kind) or ENDED.search(text.partition("\n")[0]):
        return SparkFailure(Code.WORKER_LOST, kind[:LONGEST] if task else first_line(text))
    if (not task or kind.startswith("org.apache.")) and (denied := DENIED.search(text)):
        line = next(line for line in text.splitlines() if denied.group(0) in line)
        code = Code.AUTHENTICATION_FAILED if denied.group(2) else Code.PERMISSION_DENIED
        return SparkFailure(code, line.strip()[:LONGEST])
    code = Code.KAFKA_UNAVAILABLE if CONNECTION.search(kind) else Code.TRANSFORM_RAISED
    return SparkFailure(code, cause(text))


def line_of_code(frames: str) -> str:
    """The last frame that is not of an installed package; else the last one."""
    found = [
        (path, f"{path}, line {number}, in {name}: {code}".rstrip(": "))
        for path, number, name, code in FRAME.findall(frames)
    ]
    own = [line for path, line in found if not any(part in path for part in INSTALLED)]
    return (own or [line for _, line in found] or [""])[-1]


def cause(text: str) -> str:
    """The last line that names a cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if ": " in line and not line.startswith(NO_CAUSE)]
    return (causes or lines or ["no message"])[-1][:LONGEST]


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")[:LONGEST]
