"""The code location: a table of contents. Importing it starts nothing and needs no broker and no Java."""

import dagster as dg

from eos_assets.defs import experiment, pipelines, resources

defs = dg.Definitions.merge(pipelines.defs, experiment.defs, resources.defs)
