"""The tables show rates, ratios and costs."""

from benchmarks.contenders import ARROW_BASELINE, DESCRIPTIONS, FLINK
from benchmarks.tables import Table, price_table, scaling_table, throughput_table
from eos_assets_tests.benchmarks.samples import series, whole_results, workload_result


def test_the_fastest_contender_is_the_first_and_ratios_are_those_of_the_rounds() -> None:
    table = throughput_table(workload_result(**{FLINK: series(2, 4, 4)}))
    assert [row[0] for row in table.rows] == ["eos, Arrow kind, exactly once", "Flink, exactly once"]
    flink = dict(zip(table.columns, table.rows[1], strict=True))
    assert flink["records/s"] == "250,000 (250,000 to 375,000)"
    assert flink["of the Arrow kind"] == "0.50 (0.50 to 0.75)"
    assert (flink["CPU s per million"], flink["of the broker"]) == ("6.0", "2.0")
    assert (flink["memory, MB"], flink["Python worker, MB"]) == ("100", "")


def test_megabytes_are_shown_for_values_of_a_size() -> None:
    result = workload_result().model_copy(update={"value_bytes": 1000})
    table = throughput_table(result)
    assert dict(zip(table.columns, table.rows[0], strict=True))["MB/s"] == "500"
    assert "MB/s" not in throughput_table(workload_result()).columns


def test_a_contender_with_fewer_records_is_compared_by_its_rate() -> None:
    table = throughput_table(workload_result(**{FLINK: series(1, 2, 4, records=250_000)}))
    assert dict(zip(table.columns, table.rows[1], strict=True))["of the Arrow kind"] == "0.25"


def test_without_the_arrow_kind_there_is_no_ratio() -> None:
    result = workload_result().model_copy(update={"series": {FLINK: series(1, 2)}})
    assert throughput_table(result).rows[0][2] == ""


def test_the_price_is_that_of_a_kind_of_which_both_deliveries_ran() -> None:
    workloads = {"integers": workload_result(**{ARROW_BASELINE: series(0.5, 1, 4)})}
    assert price_table(workloads).rows == [["Short integers, squared", "0.50 (0.50 to 0.75)", ""]]
    assert price_table({"integers": workload_result()}).rows == []


def test_scaling_has_a_row_for_each_point() -> None:
    assert scaling_table(whole_results().scaling).rows == [["1,000", "3", "2,000", "1,000", "0.50", "1.00"]]


def test_a_table_in_markdown() -> None:
    assert Table("t", ["a", "b"], [["1", "2"]]).markdown() == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_each_contender_has_a_title_of_its_own() -> None:
    assert len({each.title for each in DESCRIPTIONS.values()}) == len(DESCRIPTIONS)
