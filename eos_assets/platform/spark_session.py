"""The address of a Spark in, the configuration of a session there out: in-process, Spark Connect or a cluster."""

import sys
from pathlib import Path

from eos_assets.platform.jars import ensure_jars
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.settings import Settings
from eos_assets.transform.arrow_batches import BATCH_BYTES, WATCHED

LOG4J = Path(__file__).with_name("spark-log4j2.properties")

#: All cores, and four attempts per task: plain `local[*]` never retries a task.
IN_PROCESS = "local[*,4]"

#: Names of settings and reader options whose values are shown nowhere.
SECRETS = "(?i)secret|password|token|access[.]?key|jaas|keystore|truststore"

#: What a session may set wherever Spark runs.
SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    BATCH_BYTES: WATCHED,
    # The options of the Kafka reader hold the password: no plan and no page of the UI shows such values.
    "spark.sql.redaction.options.regex": SECRETS,
}


def session_config(address: str, settings: Settings) -> dict[str, str]:
    """The configuration for `SparkSession.builder`, for any address."""
    if address.startswith("sc://"):
        return {"spark.remote": address, **SESSION}
    return cluster_config(address, settings)


def cluster_config(master: str, settings: Settings) -> dict[str, str]:
    """The configuration of a Spark that we start ourselves: it brings the jars and the Python that run us."""
    config = {
        "spark.master": master,
        "spark.app.name": "eos",
        "spark.jars": ",".join(str(jar) for jar in ensure_jars("spark", settings)),
        "spark.pyspark.python": settings.spark_python or sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.speculation": "false",
        "spark.redaction.regex": SECRETS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(settings.home / "spark" / "warehouse"),
        **SESSION,
    }
    config["spark.driver.memory"] = "2g"
    config["spark.driver.extraJavaOptions"] = f'-Dlog4j2.configurationFile="{LOG4J}"'  # a path may hold spaces
    if master.startswith("local"):  # workers elsewhere get this package only with their tasks
        config["spark.python.daemon.module"] = "eos_assets.platform.worker_startup"
    if master.startswith("local") or f"//{LOOPBACK}:" in master:
        config |= {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
    return config
