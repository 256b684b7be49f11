"""The front door: a pipeline that is declared, tested, run and proven with `import eos_assets as eos` alone."""

import subprocess
import sys
import uuid

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import eos_assets as eos
from eos_assets.kafka.connection import Connection
from eos_assets.pipelines.balances import balances
from eos_assets.pipelines.squares import squares
from eos_assets_tests.run.lab import MakeLab


def declare_halves() -> eos.Pipeline:
    """Halves of even integers, with a check that no half is 3."""
    name = f"t{uuid.uuid4().hex[:10]}"

    @eos.pipeline(name=name, source=f"{name}-source", sink=eos.Topic(f"{name}-sink", partitions=2))
    def halves(records: DataFrame) -> DataFrame:
        """Halve each even integer."""
        number = f.col("value").cast("string").try_cast("int")
        error = f.when(number.isNull(), "not an integer")
        return eos.output(records, value=(number / 2).cast("int"), error=error, skip=number % 2 == 1)

    @halves.check(blocking=False)
    def no_half_is_three(proof: eos.Proof) -> eos.Finding:
        """No half is 3."""
        wrong = proof.deliveries().where("cast(output.value AS string) = '3'").select("source", "output.value")
        return proof.finding(wrong, holds="no half is 3", broken="halves are 3")

    return halves


def test_a_transform_is_tested_without_kafka(spark: SparkSession) -> None:
    rejected = eos.Rejected("b", "the value is not an integer of at most 19 digits")
    assert squares.test(spark, [("a", "12"), ("b", "x"), (None, "-3")]) == [("a", "144"), rejected, (None, "9")]
    assert declare_halves().test(spark, [("a", "5"), ("b", "6")]) == [eos.Skipped("a"), ("b", "3")]


def test_a_stateful_function_is_tested_from_an_empty_state(spark: SparkSession) -> None:
    booking = '{"transaction_id": "%d", "account": "a", "currency": "EUR", "amount": "1.00"}'
    tested = balances.test(spark, [("a", booking % 1), ("a", booking % 2), ("b", booking % 3)])
    assert [str(content) for _, content in tested[:2]] == [  # type: ignore[misc]
        '{"account": "a", "transaction_id": "1", "currency": "EUR", "balance": "1.00"}',
        '{"account": "a", "transaction_id": "2", "currency": "EUR", "balance": "2.00"}',
    ]
    assert tested[2] == eos.Rejected("b", "the key is not the account")


@pytest.mark.connect
def test_output_keeps_what_a_sink_needs_and_writes_values_as_text(spark: SparkSession) -> None:
    records = eos.testing.sample_records(spark, [("a", "1")])
    rows = eos.output(
        records, value=f.lit("2024-02-29").cast("date"), key=f.lit(7), topic=f.lit("t"), skip=f.lit(False)
    )
    assert rows.columns == ["key", "value", "skip", "topic", "origin"]
    (row,) = rows.collect()
    assert (row.key, row.value) == ("7", "2024-02-29")
    untouched = eos.output(records, value="value").first()
    assert untouched is not None
    assert (bytes(untouched.key), bytes(untouched.value)) == (b"a", b"1")


def test_a_pipeline_runs_proves_and_checks_itself(
    make_lab: MakeLab, spark: SparkSession, connection: Connection
) -> None:
    halves = declare_halves()
    lab = make_lab(pipeline=halves)
    lab.produce([b"2", b"3", b"6", b"x"], key=b"k")
    assert [[row.value for row in record.results] for record in halves.preview(2, spark=spark, kafka=connection)] == [
        ["3"],
        [None],
    ]
    report = halves.run(spark=spark, kafka=connection)
    assert report.complete
    assert sorted(filter(None, lab.values())) == [b"1", b"3"]
    verification = halves.verify(spark=spark, kafka=connection)
    assert {finding.name for finding in verification.findings if not finding.holds} == {"no_half_is_three"}
    finding = verification.findings[-1]
    assert finding.detail == "1 halves are 3"
    assert finding.examples == (f"source={lab.source}/0/2, value=3",)


def test_deliveries_of_nothing_are_empty(make_lab: MakeLab, spark: SparkSession, connection: Connection) -> None:
    halves = declare_halves()
    make_lab(pipeline=halves)
    findings = halves.verify(spark=spark, kafka=connection).findings
    assert findings[-1] == eos.Finding("no_half_is_three", detail="no half is 3")


def test_a_check_that_raises_or_returns_no_finding_is_named(
    make_lab: MakeLab, spark: SparkSession, connection: Connection
) -> None:
    halves, thirds = declare_halves(), declare_halves()

    @halves.check
    def misnamed(proof: eos.Proof) -> eos.Finding:
        return proof.finding(proof.deliveries().where("output.valeu < 0"), holds="none", broken="some")

    @thirds.check
    def true(proof: eos.Proof) -> eos.Finding:
        return True  # type: ignore[return-value]

    for pipeline, problem in (
        (halves, "misnamed of pipeline .* raises: .*valeu"),
        (thirds, "true of .* returned bool"),
    ):
        make_lab(pipeline=pipeline)
        with pytest.raises(eos.EosError, match=f"Check {problem}") as error:
            pipeline.verify(spark=spark, kafka=connection)
        assert ("in misnamed: return proof.finding(" in error.value.problem) == (pipeline is halves)


def test_an_output_that_is_not_a_column_is_refused(spark: SparkSession) -> None:
    with pytest.raises(TypeError, match=r"value=5 is not a column: use its name, or f\.lit\(5\)"):
        eos.output(eos.testing.sample_records(spark, []), value=5)


@pytest.mark.parametrize(
    ("imported", "absent"),
    [("eos_assets.sink.task", "eos_assets.verify"), ("eos_assets.cli", "pyarrow"), ("eos_assets.cli", "pyspark")],
)
def test_the_front_door_imports_neither_the_proof_nor_large_packages(imported: str, absent: str) -> None:
    """Workers and the command line run it at their start."""
    code = f"import sys, eos_assets, {imported}; print({absent!r} in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'pipelin'"):
        eos.pipelin  # noqa: B018


def test_a_name_declares_a_topic_of_three_partitions() -> None:
    assert squares.source == eos.Topic("datasource", partitions=3)
    with pytest.raises(eos.EosError, match="is not a valid topic name"):
        eos.pipeline(source="no spaces", sink="s")
