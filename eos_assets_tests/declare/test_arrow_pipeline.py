"""The declaration of an Arrow pipeline."""

from typing import Any

import pytest

import eos_assets as eos


def identity(records: Any) -> Any:
    """Write each record as it is."""
    return records


def test_it_is_named_and_described_by_its_function() -> None:
    pipeline = eos.arrow_pipeline(source="a", sink=["b", "c"])(identity)
    assert isinstance(pipeline, eos.ArrowPipeline)
    assert (pipeline.name, pipeline.description) == ("identity", "Write each record as it is.")
    assert [sink.name for sink in pipeline.sinks] == ["b", "c"]
    assert pipeline.takes_batches
    assert not eos.pipeline(source="a", sink="b")(identity).takes_batches


@pytest.mark.parametrize("columns", ["headers", ["headers", "offset"]])
def test_an_unknown_column_is_refused(columns: Any) -> None:
    with pytest.raises(eos.EosError, match=r"Pipeline identity: columns=.* is not valid\.") as error:
        eos.arrow_pipeline(source="a", sink="b", columns=columns)(identity)
    assert "Use a list of 'timestamp', 'headers', 'partition'." in error.value.remedy


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"state": "n int"}, "an Arrow pipeline has no state"),
        ({"ordered": True}, "ordered is not an option"),
        ({"on_error": "ignore"}, "on_error='ignore' is not valid"),
    ],
)
def test_an_option_that_it_does_not_have_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises((eos.EosError, TypeError), match=problem):
        eos.arrow_pipeline(source="a", sink="b", **options)(identity)


def test_a_function_with_other_parameters_is_refused() -> None:
    def fold(records: Any, state: Any) -> Any:
        return records, state

    with pytest.raises(eos.EosError, match=r"takes \(.*\) -> .* instead of \(records\)"):
        eos.arrow_pipeline(source="a", sink="b")(fold)  # type: ignore[arg-type]
