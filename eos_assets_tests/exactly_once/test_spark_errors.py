"""What a failed Spark job tells, whatever the records in it say."""

import pytest

from eos_assets.exactly_once.spark_errors import brief, may_heal, quotes_records

TASK = "Job aborted due to stage failure: Task 0 failed 4 times, most recent: Lost task 0.3 (TID 7) (host executor 1): "
FRAMES = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "writer.py", line 1, in run
    raise told
    ^^^^^^^^^^
"""
UNREAD = """eos_assets.kafka.tail.Unread: Partition 0 of t could not be read to offset 9: it stands still at 4.
Remedy: Check the brokers with `eos doctor`.
"""


def test_a_partition_that_stands_still_in_a_task_may_heal_and_is_told_by_its_cause() -> None:
    failure = Exception(TASK + FRAMES + UNREAD)
    assert may_heal(failure)
    assert "stands still at 4" in brief(failure)
    assert not may_heal(Exception(TASK + FRAMES + UNREAD.replace("eos_assets.kafka.tail.Unread", "mine.Unread")))


@pytest.mark.parametrize(
    "lost",
    [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider …",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
        "org.apache.kafka.common.errors.TimeoutException: Timeout expired",
        "java.net.ConnectException: Connection refused",
    ],
)
def test_what_a_record_says_decides_nothing(lost: str) -> None:
    """The same words heal as an error of their own, and not in what a transform quotes."""
    assert may_heal(Exception(TASK + lost))
    quotes = f"cannot parse {TASK}{lost}\ncimpl.KafkaException: KafkaError\nTopicAuthorizationException: x\n"
    of_python = "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
    for told in (
        f"[CAST_INVALID_INPUT] The value '{quotes}' cannot be cast",
        f"{of_python}{FRAMES.partition(': ')[2]}ValueError: {quotes}",
        f"{TASK}{FRAMES}ValueError: {quotes}",
        f"{TASK}java.lang.NumberFormatException: {quotes}",
    ):
        assert not may_heal(Exception(told)), told
        assert brief(Exception(told)).startswith(("ValueError: cannot parse", "[CAST", "Topic")), told
    assert quotes_records(f"[CAST_INVALID_INPUT] {quotes}")
    assert not quotes_records(f"{TASK}{lost}")
