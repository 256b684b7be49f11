"""The launch options of an experiment: those of a run, and the faults to inject."""

from dataclasses import replace

from pydantic import Field

from eos_assets.experiment.faults import KINDS, Faults
from eos_assets.orchestration.assets.transactional_topic import RunConfig


class FaultyRunConfig(RunConfig):
    """The options of a run in which transactions fail on purpose: `pipeline_definitions(…, run_config=…)`."""

    failure_probability: float = Field(default=0.0, description="The share of transactions that fail.")
    failure_kind: str = Field(default="before_commit", description=f"How they fail: {', '.join(KINDS)}.")
    seed: int = Field(default=0, description="The same seed fails the same transactions.")
    kill_partition: int | None = Field(
        default=None, description="Kill the worker of this partition once, within a transaction."
    )

    def faults(self) -> Faults:
        faults = Faults(self.failure_probability, self.seed, kind=self.failure_kind)
        if self.kill_partition is None:
            return faults
        return replace(faults, failpoint="mid_produce", action="exit", partition=self.kill_partition)
