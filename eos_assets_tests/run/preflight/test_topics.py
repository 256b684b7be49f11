"""Topics that do not exist."""

import pytest

from eos_assets.declare.modes import Mode
from eos_assets.errors import EosError
from eos_assets.run.plan import make_plan
from eos_assets_tests.run.lab import Lab


def test_topics_that_are_missing_are_named_with_the_command_that_creates_them(lab: Lab) -> None:
    module, mode = lab.pipeline.transform.__module__, Mode.AT_LEAST_ONCE
    command = f"`eos topics create --pipeline {lab.pipeline.name} --module {module} --mode {mode}`"
    for act in (
        lambda: make_plan(lab.pipeline, lab.connection, mode=mode),
        lambda: lab.run(mode=mode),
        lambda: lab.proof(mode=mode),
    ):
        with pytest.raises(EosError, match="needs topics that do not exist") as refused:
            act()
        assert command in refused.value.remedy
