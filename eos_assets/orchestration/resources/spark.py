"""The Spark session as a Dagster resource: in-process, Spark Connect or a cluster, chosen by one setting."""

from typing import Any

from dagster_pyspark import LazyPySparkResource
from dagster_spark.utils import flatten_dict
from pydantic import Field

from eos_assets.platform.settings import Settings
from eos_assets.platform.spark_session import start_session


class SparkResource(LazyPySparkResource):
    """A session that starts when it is first used."""

    spark_config: dict[str, Any] = Field(default={}, description="Spark settings that override those of the project.")
    address: str = Field(default="", description="in-process, connect, spark://… or sc://…; default: EOS_SPARK.")

    def _init_session(self) -> None:
        if self._spark_session is None:
            self._spark_session = start_session(Settings.load(), self.address, dict(flatten_dict(self.spark_config)))
