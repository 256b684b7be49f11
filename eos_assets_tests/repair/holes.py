"""Holes that a repair can close, and the repair of a lab."""

from collections.abc import Callable
from dataclasses import replace

from eos_assets.repair.plan import RepairPlan, plan_repair
from eos_assets.repair.repair import RepairOptions, RepairReport, apply_repair
from eos_assets.sink.job import NoFaults
from eos_assets_tests.run.forgery import Output
from eos_assets_tests.run.lab import ACCEPTED, Lab

Change = Callable[[list[Output]], list[Output]]


def repair(lab: Lab, plan: RepairPlan | None = None, faults: NoFaults | None = None) -> RepairReport:
    """Apply a plan, by default a new one."""
    options = RepairOptions(faults=faults or NoFaults(), accepted_spark=ACCEPTED)
    return apply_repair(plan or plan_repair(lab.context), options)


def without(*numbers: int) -> Change:
    """These outputs are neither written nor named."""
    return lambda made: [output for output in made if output.number not in numbers]


def torn(*numbers: int) -> Change:
    """These outputs are named, and not visible."""
    return lambda made: [replace(output, visible=output.number not in numbers) for output in made]


def keys(lab: Lab) -> list[int]:
    """The keys of all visible records of the sink."""
    return sorted(int(message.key() or b"") for message in lab.read())
