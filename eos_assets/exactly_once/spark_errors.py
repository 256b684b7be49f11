"""What a failed Spark job tells: what happened in it, and whether another attempt may heal it."""

import re

#: Lines that say where it happened, or what to do about it.
NO_CAUSE = ("File", "at ", "org.", "JVM", "Remedy: ")


def brief(failure: Exception) -> str:
    """The last line of a Python error inside a Spark error, which is what happened."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    told = [line for line in lines if ": " in line and not line.startswith(NO_CAUSE)]
    return (told[-1] if told else lines[0] if lines else repr(failure))[:500]


#: Errors of a Python worker that another attempt may heal, our own protocol's and Kafka's: the rest is the transform's.
OURS = re.compile(r"eos_assets\.(exactly_once|kafka)\.|(\w+\.)*KafkaException\b")
#: The same of the JVM: those of the reader's client and of connections.
JVM = re.compile(r"(org\.apache\.kafka|java\.net|java\.io)\.[\w.]*Exception|java\.util\.concurrent\.TimeoutException")
#: The kind of error that ended a task stands behind where it ran.
TASK = re.compile(r"\(TID \d+\) \([^)]*\): ([\w.$]+)")
LOST = re.compile(r"Python worker exited unexpectedly|ExecutorLost")
PYTHON = "Traceback (most recent call last)"


def may_heal(failure: Exception) -> bool:
    """Kinds of errors decide, not their words: what a transform raises may quote any record."""
    text = str(failure)
    if LOST.search(text):
        return True
    return bool(OURS.match(brief(failure)) if PYTHON in text else JVM.search(kind(text)))


def kind(text: str) -> str:
    """The part of a JVM's error that no record can have a say in. Errors of the query begin with their condition."""
    task = TASK.search(text)
    if task:
        return task.group(1)
    return "" if text.startswith("[") else text
