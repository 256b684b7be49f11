"""What a run, a proof and an update of the audit tables all need: a pipeline and where it runs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.declare.modes import Mode
from eos_assets.declare.names import Names
from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class PipelineContext:
    """A pipeline, the Spark session that computes it and the Kafka cluster that holds its topics."""

    pipeline: Pipeline
    spark: "SparkSession"
    kafka: Connection
    mode: Mode = Mode.EXACTLY_ONCE

    @property
    def names(self) -> Names:
        """The names of the pipeline's topics and group in this delivery mode."""
        return self.pipeline.names(self.mode)

    @property
    def exactly_once(self) -> bool:
        """False for the baseline deliveries, whose ledger is not atomic with their output."""
        return self.mode is Mode.EXACTLY_ONCE
