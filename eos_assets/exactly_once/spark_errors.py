"""What a failed Spark job tells: what happened in it, and whether another attempt may heal it.

A transform's error may quote a record, and a record may hold anything: the words of another error, too. So kinds are
read only from places in which Spark and Python speak themselves.
"""

import re

#: Lines that say where it happened, or what to do about it.
NO_CAUSE = ("File", "at ", "org.", "JVM", "Remedy: ")
#: What ended a task stands behind where it ran. A worker that was killed has no kind of its own.
TASK = re.compile(r"\(TID \d+\) \([^)]*\): ([\w.$]+(?:: Python worker exited unexpectedly[^.\n]*)?)")
#: A Python error: its frames are indented, and the first line behind them that is not begins with its kind.
PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)")
FROM_PYTHON = "An exception was thrown from the Python worker"

#: What another attempt may heal: lost workers and executors, our own protocol's errors, Kafka's, and those of
#: connections. The rest is the transform's.
HEALS = re.compile(
    r"(org\.apache\.spark\.SparkException: Python worker exited|ExecutorLostFailure|org\.apache\.spark\.shuffle\."
    r"|eos_assets\.(exactly_once|kafka)\.|(\w+\.)*KafkaException\b)"
)
CONNECTION = re.compile(
    r"(org\.apache\.kafka|java\.net|java\.io)\.[\w.]*Exception|java\.util\.concurrent\.TimeoutException"
)


def may_heal(failure: Exception) -> bool:
    text = str(failure)
    told = python_error(text)
    if told is not None:
        return bool(HEALS.match(told))
    return bool(HEALS.match(kind(text)) or CONNECTION.search(kind(text)))


def brief(failure: Exception) -> str:
    """One line that says what happened."""
    text = str(failure)
    lost = kind(text) if "Python worker exited" in kind(text) and TASK.search(text) else None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if ": " in line and not line.startswith(NO_CAUSE)]
    if of_the_query(text):
        causes = lines[:1]
    return (python_error(text) or lost or (causes or lines or [repr(failure)])[-1])[:500]


def python_error(text: str) -> str | None:
    """The line that begins with the kind of a Python worker's error; None if it was another one that ended the job."""
    from_python = text.lstrip().startswith(FROM_PYTHON) or kind(text).endswith("PythonException")
    found = PYTHON.search(text) if from_python else None
    return found.group(1) if found else None


def quotes_records(text: str) -> bool:
    """Whether the error comes from the transform, so that a record may have a say in its words."""
    return of_the_query(text) or python_error(text) is not None


def of_the_query(text: str) -> bool:
    """Whether it is an error of the query, which is the transform's: such a one begins with its condition."""
    return text.lstrip().startswith("[")


def kind(text: str) -> str:
    """The part of a JVM's error that no record can have a say in."""
    if of_the_query(text):
        return ""
    task = TASK.search(text)
    return task.group(1) if task else text
