import pytest

# What the plugin imports: its assertions show their values, too.
pytest.register_assert_rewrite(f"{__name__}.exactly_once", f"{__name__}.defs")
