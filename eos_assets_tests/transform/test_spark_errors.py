"""What Spark reports about a failed job gets the right code, whatever the records contain."""

import re
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eos_assets.errors import MEANINGS, Code, Reaction
from eos_assets.transform.spark_errors import classify, raise_code, summarize, unreadable_path

#: How Spark begins the message of a job whose task failed for the last time.
TASK = "Job aborted due to stage failure: Task 0 failed 4 times, most recent: Lost task 0.3 (TID 7) (host executor 1): "
TRACEBACK = """Traceback (most recent call last):
  File "/home/me/orders.py", line 12, in price
    return total(order)
           ^^^^^^^^^^^^
  File "/venv/lib/site-packages/money/sums.py", line 3, in total
    raise ValueError(order)
"""


class Reported(PySparkException):
    """As Spark's own exceptions: with a condition and its parameters."""

    def __init__(self, text: str, condition: str, **parameters: str) -> None:
        super().__init__(text)
        self.condition, self.parameters = condition, parameters

    def getCondition(self) -> str:  # noqa: N802
        return self.condition

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802
        return self.parameters

    def getQueryContext(self) -> list[Any]:  # noqa: N802
        return []

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else str(self._message)


#: What a JVM reports without a class or a condition of its own, and the code for it.
OF_THE_JVM = {
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider …": Code.WORKER_LOST,
    "TaskKilled (Preempted)": Code.WORKER_LOST,
    "java.lang.OutOfMemoryError: Java heap space": Code.WORKER_LOST,
    "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)": Code.WORKER_LOST,
    "org.apache.spark.shuffle.FetchFailedException: Connection reset": Code.WORKER_LOST,
    "org.apache.kafka.common.errors.TimeoutException: Timeout expired": Code.KAFKA_UNAVAILABLE,
    "java.net.ConnectException: Connection refused": Code.KAFKA_UNAVAILABLE,
    "java.io.EOFException: null": Code.KAFKA_UNAVAILABLE,
    "java.util.concurrent.TimeoutException: Cannot fetch record for offset 4": Code.KAFKA_UNAVAILABLE,
    "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized: [t]": Code.PERMISSION_DENIED,
    "org.apache.kafka.common.errors.GroupAuthorizationException: Not authorized: g": Code.PERMISSION_DENIED,
    "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed": Code.AUTHENTICATION_FAILED,
    "org.apache.kafka.common.errors.SslAuthenticationException: SSL handshake failed": Code.AUTHENTICATION_FAILED,
    "java.lang.NumberFormatException: For input string": Code.TRANSFORM_RAISED,
}


@pytest.mark.parametrize(("report", "code"), OF_THE_JVM.items(), ids=[text.split(":")[0] for text in OF_THE_JVM])
def test_each_report_of_the_jvm_has_its_code(report: str, code: Code) -> None:
    assert classify(Exception(TASK + report)).code is code


@pytest.mark.parametrize(
    "report",
    [
        "Job 7 cancelled because SparkContext was shut down",
        "Job aborted due to stage failure: ShuffleMapStage 3 has failed the maximum allowable number of times: 4.",
    ],
)
def test_a_job_that_ended_without_a_failed_task_is_retried(report: str) -> None:
    assert classify(Exception(report)).code is Code.WORKER_LOST


@pytest.mark.parametrize(
    "failure",
    [
        Exception("<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE"),
        Exception("Received incorrect server side session identifier for request."),
        Reported("[INVALID_HANDLE.SESSION_NOT_FOUND] x", "INVALID_HANDLE.SESSION_NOT_FOUND"),
        Reported("[NO_ACTIVE_SESSION] x", "NO_ACTIVE_SESSION"),
    ],
)
def test_a_spark_connect_server_that_is_lost_ends_the_run(failure: Exception) -> None:
    assert classify(failure).code is Code.SPARK_LOST


def test_a_broker_that_does_not_answer_the_driver_is_retried() -> None:
    assert classify(KafkaException(KafkaError(KafkaError._TIMED_OUT))).code is Code.KAFKA_UNAVAILABLE


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("KAFKA_DATA_LOSS.ADDITIONAL_PARTITION_NOT_FOUND_FOR_OFFSET", Code.KAFKA_UNAVAILABLE),
        ("FAILED_READ_FILE.FILE_NOT_EXIST", Code.FILE_UNREADABLE),
        ("CAST_INVALID_INPUT", Code.TRANSFORM_RAISED),
    ],
)
def test_each_condition_has_its_code(condition: str, code: Code) -> None:
    failure = Reported(f"[{condition}] in words", condition, path="file:/lake/part-0.parquet")
    assert classify(failure).code is code
    assert unreadable_path(failure) == ("file:/lake/part-0.parquet" if code is Code.FILE_UNREADABLE else "")


@pytest.mark.parametrize("report", [text for text, code in OF_THE_JVM.items() if code is not Code.TRANSFORM_RAISED])
def test_the_content_of_a_record_decides_nothing(report: str) -> None:
    """The same words are an error of their own, and nothing but words in what a transform quotes."""
    quotes = f"cannot parse {TASK}{report}\ncimpl.KafkaException: KafkaError\n"
    failures: dict[str, Exception] = {
        "[CAST": Reported(f"[CAST_INVALID_INPUT] The value '{quotes}' cannot be cast", "CAST_INVALID_INPUT"),
        "[USER": Reported(f"[USER_RAISED_EXCEPTION] {quotes}", "USER_RAISED_EXCEPTION", errorMessage=quotes),
        "[USER_": Reported("[USER_] x", "USER_RAISED_EXCEPTION", errorMessage=f"eos:{Code.KAFKA_UNAVAILABLE}:x"),
        "ValueError: cannot parse": PythonException(f"{TRACEBACK}ValueError: {quotes}"),
        "": Exception(f"{TASK}java.lang.NumberFormatException: {quotes}"),
    }
    for begins, failure in failures.items():
        assert classify(failure).code is Code.TRANSFORM_RAISED, failure
        assert summarize(failure).startswith(begins), failure


def test_an_error_of_python_names_the_users_own_line() -> None:
    reported = classify(PythonException(f"\n  An exception was thrown.\n{TRACEBACK}ValueError: no price\n"))
    assert (reported.code, reported.message) == (Code.TRANSFORM_RAISED, "ValueError: no price")
    assert reported.line_of_code == "/home/me/orders.py, line 12, in price: return total(order)"
    assert reported.described == f"ValueError: no price ({reported.line_of_code})"


def test_a_module_that_the_workers_lack_stops_the_run() -> None:
    reported = classify(PythonException(f"{TRACEBACK}ModuleNotFoundError: No module named 'money'"))
    assert reported.code is Code.MODULE_MISSING
    assert MEANINGS[reported.code].reaction is Reaction.STOP


@pytest.mark.connect
def test_spark_4_2_reports_what_is_read_here(spark: SparkSession) -> None:
    """On the real thing: a code of ours that a plan raises, an error of a query, of a function and of a worker."""
    assert spark.version.startswith("4.2.")

    def failed(rows: DataFrame) -> Any:
        with pytest.raises(Exception) as failure:  # noqa: PT011
            rows.collect()
        return classify(failure.value)

    one = spark.createDataFrame([("no number",)], "value string")
    ours = failed(one.select(raise_code(Code.MISPLACED_KEY, f.concat(f.lit("it is "), "value"))))
    assert (ours.code, ours.message) == (Code.MISPLACED_KEY, "it is no number")
    assert failed(one.select(f.raise_error(f.lit("eos:nothing of ours:x")))).code is Code.TRANSFORM_RAISED
    query = failed(one.select(f.col("value").cast("int")))
    assert query.code is Code.TRANSFORM_RAISED
    assert query.message.startswith("[CAST_INVALID_INPUT]")
    assert re.fullmatch(r".*/test_spark_errors\.py, line \d+: cast\(\)", query.line_of_code)
    assert failed(one.selectExpr("int(value) as n")).line_of_code == "in SQL: int(value)"

    def price(value: str) -> float:
        return float(value)

    raised = failed(one.select(f.udf(price, "double")("value")))
    assert raised.code is Code.TRANSFORM_RAISED
    assert raised.message == "ValueError: could not convert string to float: 'no number'"
    assert "in price: return float(value)" in raised.line_of_code

    def die(batches: Any) -> Any:
        import os

        os._exit(3)
        yield from batches

    assert failed(one.mapInArrow(die, "value string")).code is Code.WORKER_LOST
