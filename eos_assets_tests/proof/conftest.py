"""Pipelines on topics of their own."""

from eos_assets_tests.exactly_once.conftest import lab, make_lab  # noqa: F401
