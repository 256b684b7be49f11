"""How rows travel when several jobs share one session: a careful one is never made swift by its neighbours."""

from pyspark.sql import SparkSession

from eos_assets.transform.arrow_batches import BATCH_BYTES, NOT_WATCHED, batches


def test_a_careful_job_stays_careful_beside_swift_ones_and_the_session_gets_its_setting_back(
    spark: SparkSession,
) -> None:
    said = spark.conf.get(BATCH_BYTES)
    assert said is not None
    spark.conf.set(BATCH_BYTES, "12345678")
    try:
        swift, careful, later = batches(spark, swift=True), batches(spark, swift=False), batches(spark, swift=True)
        with swift:
            assert spark.conf.get(BATCH_BYTES) == NOT_WATCHED
            with careful:
                assert spark.conf.get(BATCH_BYTES) == "12345678"
                later.__enter__()
                assert spark.conf.get(BATCH_BYTES) == "12345678", "a swift job that begins meanwhile is careful too"
        later.__exit__(None, None, None)
        assert spark.conf.get(BATCH_BYTES) == "12345678", "the session's own setting, not one of ours"
    finally:
        spark.conf.set(BATCH_BYTES, said)
