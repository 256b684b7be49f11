"""The pipelines of the modules that the settings name, and of installed packages."""

from eos_assets.declare.registry import find_pipelines
from eos_assets.orchestration.pipeline_definitions import pipeline_definitions
from eos_assets.platform.settings import Settings

pipelines = find_pipelines(Settings.load().modules)
defs = pipeline_definitions(pipelines.values())
