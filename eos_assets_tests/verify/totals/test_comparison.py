"""The comparison of totals: equal ones give the figures of a window, and any other leaves it to the rows."""

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from pyspark.sql import SparkSession

from eos_assets.context import PipelineContext
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.kafka.connection import Connection
from eos_assets.verify.recomputation import Recomputation
from eos_assets.verify.scope import ProofScope
from eos_assets.verify.topic_frames import TopicFrames
from eos_assets.verify.totals.comparison import TotalsComparison
from eos_assets.verify.totals.map_reader import MapClaims
from eos_assets.verify.totals.total import PassResults, Total, UndecidedError, hash_rows, total
from eos_assets.verify.window.window import PartitionWindow, Window

SCOPE = ProofScope({}, ["sink", "dead"], [1])
WINDOW = Window({0: PartitionWindow(0, [], None, start=0, end=4)}, {}, {})
#: The origins 0 to 3 of source partition 0, and the content of their outputs.
ORIGINS = total(hash_rows(np.arange(4), 0))
CONTENT = total(hash_rows(np.arange(10, 14), np.arange(4), 0, 0))
Change = Callable[[PassResults, MapClaims], None]


def comparison(*, drops: bool = False, deterministic: bool = True, window: Window = WINDOW) -> TotalsComparison:
    topics = (Topic("source"), (Topic("sink"),))
    pipeline = Pipeline("p", *topics, lambda r: r, "1", drops=drops, deterministic=deterministic)
    context = PipelineContext(pipeline, cast(SparkSession, None), Connection("nowhere:9092"))
    return TotalsComparison(Recomputation(TopicFrames(context, window)), SCOPE)


def figures(of: Total) -> list[int]:
    return [of.n, of.sum & (2**32 - 1), of.sum >> 32]


def results() -> PassResults:
    """What the passes of a clean window return, from two sinks."""
    found = PassResults(list)
    found["sink"] = [["", 3, 3, CONTENT.n, CONTENT.sum], ["", 1, 1, 0, 0]]
    found["recomputed"] = [figures(CONTENT)]
    found["visible"] = [figures(ORIGINS)]
    found["sum"] = [[0, 0, "sink", 0, 4, 0, 3, 9]]
    return found


def claims() -> MapClaims:
    return MapClaims(named=4, newer=2, origins=ORIGINS, rows=ORIGINS, per_transaction={(0, 0): 3, (0, 2): 1})


def test_equal_totals_give_the_figures_of_the_window() -> None:
    observations = comparison().compare(claims(), results())
    assert {kind: observed.n for kind, observed in observations.items() if observed.n} == {
        "source_records": 4,
        "sink_records": 4,
        "outputs_with_origin": 4,
        "newer": 2,
    }
    assert observations["sum"].examples == ['[0, 0, "sink", 0, 4, 0, 3, 9]']


def lost_output(found: PassResults, _: MapClaims) -> None:
    found["sink"][0][3:5] = [CONTENT.n - 1, CONTENT.sum]


def changed_output(found: PassResults, _: MapClaims) -> None:
    found["recomputed"] = [figures(Total(CONTENT.n, CONTENT.sum + 1))]


def unmapped_record(found: PassResults, _: MapClaims) -> None:
    found["sink"][1][0] = "a record that no map names"


def map_row_without_record(_: PassResults, claimed: MapClaims) -> None:
    claimed.named += 1


def unmapped_source_record(_: PassResults, claimed: MapClaims) -> None:
    claimed.origins = Total(ORIGINS.n - 1, ORIGINS.sum)


def misplaced_source_record(found: PassResults, _: MapClaims) -> None:
    found["misplaced"] = [[1]]


CHANGES = [
    lost_output,
    changed_output,
    unmapped_record,
    map_row_without_record,
    unmapped_source_record,
    misplaced_source_record,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_total_that_differs_leaves_the_window_to_the_rows(change: Change) -> None:
    found, claimed = results(), claims()
    change(found, claimed)
    with pytest.raises(UndecidedError):
        comparison().compare(claimed, found)


def test_outputs_of_a_transform_that_is_not_deterministic_are_not_compared() -> None:
    found = results()
    del found["recomputed"]
    assert comparison(deterministic=False).compare(claims(), found)["source_records"].n == 4


def test_records_that_a_transform_drops_are_counted_by_transaction() -> None:
    found = results()
    found["kept"], found["transaction"] = [figures(ORIGINS)], [[0, 0, 3], [0, 0, 2], [0, 2, 1]]
    observations = comparison(drops=True).compare(claims(), found)
    assert observations["dropped"].examples == ["[0, 0, 2]", "[0, 2, 0]"]
    found["kept"] = [figures(Total(ORIGINS.n - 1, ORIGINS.sum))]
    with pytest.raises(UndecidedError, match="the transform keeps"):
        comparison(drops=True).compare(claims(), found)


def test_records_that_other_code_dropped_are_not_decided_from_totals() -> None:
    window = Window({0: PartitionWindow(0, [], None, start=0, end=4, code_start=2)}, {}, {})
    found = results()
    found["kept"] = [figures(ORIGINS)]
    with pytest.raises(UndecidedError, match="other code dropped"):
        comparison(drops=True, window=window).compare(claims(), found)
