"""A transaction timeout and a durability that the cluster does not offer."""

import pytest

from eos_assets.declare.options import Batching
from eos_assets.errors import EosError
from eos_assets_tests.run.lab import Lab


def test_what_a_cluster_cannot_keep_is_refused_before_anything_runs(lab: Lab) -> None:
    lab.fill(30)
    with pytest.raises(EosError, match=r"timeout_ms=3600000.* the broker allows 900000"):
        lab.with_(batching=Batching(timeout_ms=3_600_000)).run()
    with pytest.raises(EosError, match="requires durable topics"):
        lab.with_(durability="production").run()
    assert lab.read(isolation="read_uncommitted") == []
