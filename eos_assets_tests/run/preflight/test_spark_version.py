"""Which Spark a run accepts."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from eos_assets.errors import EosError
from eos_assets.run.preflight import spark_version
from eos_assets.run.preflight.spark_version import TESTED, check_spark, minor, task_attempts
from eos_assets_tests.run.lab import Lab


def test_the_spark_of_the_tests_is_a_tested_one(spark: SparkSession) -> None:
    assert minor(spark.version) in TESTED
    check_spark(spark)


def test_a_spark_that_was_not_tested_is_refused_unless_it_is_accepted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the tests had run on another version only."""
    monkeypatch.setattr(spark_version, "TESTED", ("3.5",))
    lab.fill(30)
    version = minor(lab.spark.version)
    with pytest.raises(EosError) as refusal:
        lab.run()
    assert f"This is Spark {lab.spark.version}, and eos_assets is tested with 3.5" in refusal.value.problem
    assert f"EOS_ACCEPT_SPARK={version}" in refusal.value.remedy
    with pytest.raises(EosError, match="EOS_ACCEPT_SPARK"):
        lab.run(accepted_spark="4.9")
    for topic in lab.pipeline.own_topics():
        assert lab.read(topic.name, "read_uncommitted") == []
    assert lab.run(accepted_spark=version).complete
    lab.assert_squares(range(30))


@pytest.mark.connect
def test_the_attempts_of_a_task_are_those_of_the_session(spark: SparkSession) -> None:
    """The servers of `eos up`, and those of the tests, run with local[*,4]."""
    assert task_attempts(spark) == 4


def test_speculation_is_refused(lab: Lab) -> None:
    """However it is written. A real session takes this setting at its start only."""
    lab.fill(30)
    speculating = SimpleNamespace(version=lab.spark.version, conf={"spark.speculation": "TRUE"})
    with pytest.raises(EosError, match="Speculation is switched on"):
        replace(lab, spark=speculating).run()  # type: ignore[arg-type]
    assert lab.read(isolation="read_uncommitted") == []
