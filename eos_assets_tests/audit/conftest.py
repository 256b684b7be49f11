"""A pipeline on topics of its own, as Dagster shows it."""

from eos_assets_tests.defs.conftest import platform  # noqa: F401
from eos_assets_tests.exactly_once.conftest import lab, make_lab  # noqa: F401
