"""Maps of one sink partition, merged in its order."""

import numpy as np

from eos_assets.log.provenance import ProvenanceMap
from eos_assets.verify.totals.map_reader import MapMessage, MergedMaps


def message(rows: dict[int, int], source: int = 0) -> MapMessage:
    """A message of a provenance topic, from sink offsets and their source offsets."""
    sink, origins = (np.array(list(offsets), np.int64) for offsets in (rows.keys(), rows.values()))
    (value,) = ProvenanceMap(source, 0, "any", 0, sink, origins, np.zeros_like(sink)).messages()
    return MapMessage(int(sink[0]), source, 0, True, value)


def test_maps_are_merged_in_the_order_of_the_sink_and_decoded_when_the_pass_gets_to_them() -> None:
    merged = MergedMaps([message({4: 5, 9: 6}, source=1), message({0: 0, 5: 1, 6: 2}), message({7: 3})])
    steps = []
    for last in (-1, 0, 5, 5, 9):
        rows = merged.upto(last)
        sources = [merged.messages[number].source_partition for number in rows.message.tolist()]
        steps.append((rows.sink_offset.tolist(), rows.source_offset.tolist(), sources, merged.decoded))
    assert steps == [
        ([], [], [], 0),
        ([0], [0], [0], 1),
        ([4, 5], [5, 1], [1, 0], 2),
        ([], [], [], 2),
        ([6, 7, 9], [2, 3, 6], [0, 0, 1], 3),
    ]
