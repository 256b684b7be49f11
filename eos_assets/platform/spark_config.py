"""The configuration of a Spark session: in-process, on Spark Connect or on a cluster."""

import os
import sys
from pathlib import Path

from eos_assets.platform.jars import ensure_jars
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.settings import Settings
from eos_assets.transform.arrow_batches import BATCH_BYTES, DEFAULT_LIMIT

LOG4J = Path(__file__).with_name("spark-log4j2.properties")
JAVA_OPTIONS = "spark.driver.extraJavaOptions"

#: One task more than there are cores, because tasks sometimes wait for brokers; and four attempts per task: plain
#: `local[*]` never retries a task.
IN_PROCESS = f"local[{(os.cpu_count() or 1) + 1},4]"

#: Names of settings and reader options whose values Spark must not show.
SECRETS = "(?i)secret|password|token|access[.]?key|jaas|keystore|truststore"

#: What any session may set, wherever Spark runs.
SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    BATCH_BYTES: DEFAULT_LIMIT,
    # The options of the Kafka reader hold the password: plans and the UI must not show such values.
    "spark.sql.redaction.options.regex": SECRETS,
}


def session_config(address: str, settings: Settings) -> dict[str, str]:
    """The configuration for `SparkSession.builder`, for any address."""
    if address.startswith("sc://"):
        return {"spark.remote": address, **SESSION}
    config = cluster_config(address, settings)
    config[JAVA_OPTIONS] += " -Deos.log.level=off"
    return config


def cluster_config(master: str, settings: Settings) -> dict[str, str]:
    """The configuration of a Spark whose driver is started here, with the jars of this project and this Python."""
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
    config[JAVA_OPTIONS] = f'-Dlog4j2.configurationFile="{LOG4J}"'  # the path may contain spaces
    if master.startswith("local"):  # other workers get this package only with their tasks
        config["spark.python.daemon.module"] = "eos_assets.platform.worker_startup"
    if master.startswith("local") or f"//{LOOPBACK}:" in master:
        config |= {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
    return config
