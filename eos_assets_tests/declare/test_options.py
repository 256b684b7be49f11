"""Options out of range are refused where they are declared."""

from collections.abc import Callable

import pytest

from eos_assets.declare.options import Batching, Unique
from eos_assets.errors import EosError


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        (lambda: Batching(timeout_ms=10), "timeout_ms=10"),
        (lambda: Batching(records=0), "records=0"),
        (lambda: Batching(bytes=0), "bytes=0"),
        (lambda: Unique("key", within=0), "within=0"),
    ],
)
def test_an_option_out_of_range_is_refused(declare: Callable[[], object], problem: str) -> None:
    with pytest.raises(EosError, match=rf"\({problem}\) is not valid"):
        declare()
