"""The limit of Arrow batches when several jobs share a session: a careful job stays careful beside fast ones."""

from pyspark.sql import SparkSession

from eos_assets.transform.arrow_batches import BATCH_BYTES, NO_LIMIT, arrow_batch_limit


def test_a_careful_job_stays_careful_beside_fast_ones_and_the_session_gets_its_setting_back(
    spark: SparkSession,
) -> None:
    original = spark.conf.get(BATCH_BYTES)
    assert original is not None
    spark.conf.set(BATCH_BYTES, "12345678")
    try:
        later = arrow_batch_limit(spark, fast=True)
        with arrow_batch_limit(spark, fast=True):
            assert spark.conf.get(BATCH_BYTES) == NO_LIMIT
            with arrow_batch_limit(spark, fast=False):
                assert spark.conf.get(BATCH_BYTES) == "12345678"
                later.__enter__()
                assert spark.conf.get(BATCH_BYTES) == "12345678", "a fast job that begins meanwhile is careful too"
        later.__exit__(None, None, None)
        assert spark.conf.get(BATCH_BYTES) == "12345678", "the session's own setting, not one of ours"
    finally:
        spark.conf.set(BATCH_BYTES, original)
