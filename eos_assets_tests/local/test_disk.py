"""Free space is checked before a server starts."""

from pathlib import Path

import pytest

from eos_assets.errors import EosError
from eos_assets.local.disk import require_space


def test_too_little_space_is_named_before_a_server_starts(tmp_path: Path) -> None:
    with pytest.raises(EosError, match=r"is full: \d+ MB free, \d+ MB needed"):
        require_space(tmp_path / "not" / "yet", needed=1 << 60)
