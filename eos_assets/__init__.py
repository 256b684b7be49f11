"""Records from Kafka through Spark back to Kafka, exactly once, with the proof in every partition.

This is what a user's modules need: `import eos_assets as eos`.
"""

import importlib
import logging
from typing import TYPE_CHECKING

from eos_assets.api import ArrowPipeline, arrow_pipeline, pipeline, stateful
from eos_assets.api import FramePipeline as Pipeline
from eos_assets.declare.check import Check, Finding
from eos_assets.declare.options import Batching, Unique
from eos_assets.declare.output import output
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.testing import Rejected, Skipped

if TYPE_CHECKING:
    from eos_assets.declare.fold_by_key import fold_by_key
    from eos_assets.verify.proof import Proof

__all__ = [
    "ArrowPipeline",
    "Batching",
    "Check",
    "EosError",
    "Finding",
    "Pipeline",
    "Proof",
    "Rejected",
    "Skipped",
    "Topic",
    "Unique",
    "arrow_pipeline",
    "fold_by_key",
    "output",
    "pipeline",
    "stateful",
]

#: A library stays silent until its application configures logging; without a handler Python would print warnings.
logging.getLogger(__name__).addHandler(logging.NullHandler())


#: Imported on first use: each import of a module of this package runs this file, in the command line and in workers.
IMPORTED_LATER = {"Proof": "eos_assets.verify.proof", "fold_by_key": "eos_assets.declare.fold_by_key"}


def __getattr__(name: str) -> object:
    if name not in IMPORTED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(IMPORTED_LATER[name]), name)
