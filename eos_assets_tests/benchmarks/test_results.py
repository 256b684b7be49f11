"""Results are kept, and a part that is measured again replaces only that part."""

from benchmarks.results import Results, Series
from benchmarks.stage import Measurement
from benchmarks.usage import Usage
from eos_assets_tests.benchmarks.samples import MACHINE, whole_results, workload_result


def test_results_survive_their_file() -> None:
    assert Results.model_validate_json(whole_results().model_dump_json()) == whole_results()


def test_a_section_that_was_not_measured_again_stays() -> None:
    again = Results(date="2026-02-03", machine=MACHINE, throughput={"100B": workload_result()})
    merged = again.merged_with(whole_results())
    assert set(merged.throughput) == {"integers", "100B"}
    assert merged.scaling == whole_results().scaling
    assert merged.date == "2026-02-03"


def test_a_workload_that_was_measured_again_is_replaced() -> None:
    again = Results(machine=MACHINE, throughput={"integers": workload_result()})
    assert again.merged_with(whole_results()).throughput["integers"] == workload_result()


def test_measurements_become_a_series() -> None:
    series = Series.of(10, [Measurement(1.23456, Usage(2.25, 1.0, 7, 5)), Measurement(2.0, Usage(1.0, 1.0, 8, 6))])
    assert (series.seconds, series.cpu_seconds) == ([1.2346, 2.0], [2.25, 1.0])
    assert (series.memory_bytes, series.worker_bytes) == ([7, 8], [5, 6])
