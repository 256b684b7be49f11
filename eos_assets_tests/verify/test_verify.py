"""What a proof finds beyond the mutants of the checks: foreign and aborted records, transforms that combine records."""

import logging
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eos_assets.declare.check import Finding
from eos_assets.declare.modes import Mode
from eos_assets.verify.findings import Verification
from eos_assets.verify.verify import log_result
from eos_assets_tests.run.forgery import Output, correct_outputs, forge
from eos_assets_tests.run.lab import Lab, MakeLab, squared


@pytest.fixture
def small(make_lab: MakeLab) -> Lab:
    return make_lab(partitions=1)


def test_one_record_that_no_run_wrote(small: Lab) -> None:
    forge(small, [*correct_outputs(), Output(0, 1, named=False)])
    assert small.broken() >= {"none_invented", "values_recompute"}
    assert small.broken() <= {"none_invented", "values_recompute", "routed_correctly"}
    assert "none_invented" not in small.with_(shared_sink=True).broken()


def test_an_aborted_read(small: Lab) -> None:
    """A reader that does not ask for committed data reads the aborted record, and so can a proof (S5)."""
    forge(small, [*correct_outputs(), Output(5, 0, visible=False, named=False)])
    assert small.broken() == set()
    seen = {n for n, finding in small.verify(isolation="read_uncommitted").items() if not finding.holds}
    assert {"none_invented", "values_recompute"} <= seen


ROWS = "key binary, value binary, origin struct<partition:int,offset:bigint,ordinal:bigint>"


def numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Counts its rows, and no plan shows that."""
    count = 0
    for batch in batches:
        numbers = [b"%d" % number for number in range(count, count + batch.num_rows)]
        count += batch.num_rows
        yield batch.set_column(1, "value", pa.array(numbers, pa.binary()))


def first_of_its_key(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    seen: set[bytes] = set()
    for batch in batches:
        keys = batch["key"].to_pylist()
        first = [key not in seen and key not in keys[:at] for at, key in enumerate(keys)]
        seen.update(keys)
        yield batch.filter(pa.array(first))


def test_a_transform_that_is_not_a_function_of_one_record_turns_red(make_lab: MakeLab) -> None:
    """Its result depends on where the ranges are cut."""
    lab = make_lab(lambda r: r.select("key", "value", "origin").mapInArrow(numbered, ROWS), partitions=1)
    lab.fill(100)
    lab.run(max_records=30)
    lab.run()
    assert "values_recompute" in lab.broken()
    assert not lab.with_(deterministic=False).verify()["values_recompute"].evaluated


@pytest.mark.parametrize("function", [numbered, first_of_its_key])
def test_records_that_are_combined_after_a_shuffle_turn_red_after_one_run(
    make_lab: MakeLab, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> None:
    """The one job of the run had all of them, so running the transform again must not."""

    def combined(records: DataFrame) -> DataFrame:
        rows = records.select("key", "value", "origin").repartition(1).sortWithinPartitions("origin.offset")
        return rows.mapInArrow(function, ROWS)

    lab = make_lab(combined, partitions=1, drops=function is first_of_its_key)
    lab.produce(b"%d" % (number % 50) for number in range(100))
    assert lab.run().complete
    assert "values_recompute" in lab.broken()


def test_a_dead_letter_that_was_lost_is_missed(make_lab: MakeLab) -> None:
    """A skip replaces it, so the record is accounted for, and not as the transform would have it."""

    def skipping(records: DataFrame) -> DataFrame:
        return squared(records).selectExpr("key", "value", "error is not null as skip", "origin")

    lab = make_lab(skipping, partitions=1, code_version="1")
    lab.produce([b"1", b"bad", b"3"])
    assert lab.run().complete
    assert lab.with_(transform=squared).broken() == {"values_recompute"}


def test_a_table_that_is_empty_when_it_is_joined_again_turns_red(make_lab: MakeLab, spark: SparkSession) -> None:
    """The proof ends, whatever Spark optimizes away in such a join."""
    names = [(str(number), f"name-{number}") for number in range(30)]

    def named_by(rows: list[tuple[str, str]]) -> Callable[[DataFrame], DataFrame]:
        table = spark.createDataFrame(rows, "number string, name string")

        def named(records: DataFrame) -> DataFrame:
            joined = records.join(f.broadcast(table), f.col("value").cast("string") == f.col("number"))
            return joined.select("key", f.col("name").alias("value"), "origin")

        return named

    lab = make_lab(named_by(names), partitions=1, code_version="1")
    lab.fill(30)
    assert lab.run().complete
    assert lab.broken() == set()
    assert lab.with_(transform=named_by([])).broken() == {"values_recompute"}


def test_a_proof_logs_its_result_and_each_violation(caplog: pytest.LogCaptureFixture) -> None:
    findings = [Finding("no_duplicates", True, "none"), Finding("none_missing", False, "2 records missing")]
    with caplog.at_level(logging.INFO, logger="eos_assets"):
        log_result(Verification("p", Mode.EXACTLY_ONCE, findings), seconds=1.25)
    proof, violation = caplog.records
    assert proof.getMessage() == "The proof of pipeline p fails (all that is retained, 1.2 s)."
    assert (proof.levelname, vars(proof)["holds"], vars(proof)["seconds"]) == ("INFO", False, 1.25)
    assert violation.getMessage() == "Invariant none_missing of pipeline p is violated: 2 records missing."
    assert (violation.levelname, vars(violation)["invariant"]) == ("WARNING", "none_missing")
