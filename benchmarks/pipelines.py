"""The workloads as pipelines of this project: of DataFrames, and of Arrow batches."""

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import eos_assets as eos

if TYPE_CHECKING:
    from eos_assets.declare.pipeline import Pipeline


@eos.pipeline(source="integers", sink="squares")
def dataframe_square(records: DataFrame) -> DataFrame:
    """Square the integer of the value."""
    number = f.col("value").cast("string").cast("bigint")
    return eos.output(records, value=number * number)


@eos.pipeline(source="text", sink="upper")
def dataframe_upper(records: DataFrame) -> DataFrame:
    """Write the value in upper case."""
    return eos.output(records, value=f.upper(f.col("value").cast("string")))


@eos.arrow_pipeline(source="integers", sink="squares")
def arrow_square(records: pa.RecordBatch) -> pa.Table:
    """Square the integer of the value."""
    number = pc.cast(pc.cast(records["value"], pa.string()), pa.int64())
    return eos.output(records, value=pc.multiply_checked(number, number))


@eos.arrow_pipeline(source="text", sink="upper")
def arrow_upper(records: pa.RecordBatch) -> pa.Table:
    """Write the value in upper case."""
    return eos.output(records, value=pc.ascii_upper(pc.cast(records["value"], pa.string())))


#: Kind → the pipelines for integers and for text.
PIPELINES: "dict[str, tuple[Pipeline, Pipeline]]" = {
    "Arrow": (arrow_square, arrow_upper),
    "DataFrame": (dataframe_square, dataframe_upper),
}


def pipeline_of(kind: str, workload: str) -> "Pipeline":
    square, upper = PIPELINES[kind]
    return square if workload == "integers" else upper
