"""Finds the declared pipelines: in this project, in modules named by the user, and through entry points."""

import importlib
import importlib.metadata
import pkgutil
from collections.abc import Iterable
from itertools import combinations
from types import ModuleType

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError

#: A user's package names its pipeline modules under this entry point group.
ENTRY_POINTS = "eos_assets.pipelines"
#: The package of the pipelines that this project brings along.
OWN_PIPELINES = "eos_assets.pipelines"
#: The modules that the user named in this process.
named: set[ModuleType] = set()


def find_pipelines(modules: Iterable[str] = ()) -> dict[str, Pipeline]:
    """Every pipeline by its name. Two of one name would share a ledger and a group, so they are refused."""
    found: dict[str, tuple[Pipeline, str]] = {}
    for module in (*project_modules(), *named_modules(modules), *entry_point_modules()):
        for value in vars(module).values():
            if not isinstance(value, Pipeline):
                continue
            known = found.setdefault(value.name, (value, module.__name__))
            if known[0] is not value:
                raise EosError(
                    f"Two pipelines are named {value.name}: one in {known[1]}, one in {module.__name__}.",
                    "Give one of them another name: the name is its ledger, its group and its transactional id.",
                )
    pipelines = {name: pipeline for name, (pipeline, _) in sorted(found.items())}
    refuse_undeclared_sharing(pipelines.values())
    return pipelines


def refuse_undeclared_sharing(pipelines: Iterable[Pipeline]) -> None:
    """What a second pipeline writes to a sink would look invented to the first one, unless both say that they share."""
    for one, other in combinations(pipelines, 2):
        theirs = {topic.name for topic in other.own_topics()}
        shared = [topic.name for topic in one.own_topics() if topic.name in theirs]
        silent = [pipeline.name for pipeline in (one, other) if not pipeline.shared_sink]
        if shared and silent:
            raise EosError(
                f"{one.name} and {other.name} both write to {shared[0]}, and without a declaration each would take the "
                "other's records for invented ones.",
                f"Declare shared_sink=True in {' and '.join(silent)}, or give one of them a sink of its own.",
            )


def find_pipeline(name: str, modules: Iterable[str] = ()) -> Pipeline:
    found = find_pipelines(modules)
    if name not in found:
        raise EosError(
            f"There is no pipeline {name}.",
            f"Known are: {', '.join(found)}. One of your own is found with --module your.module.",
        )
    return found[name]


def project_modules() -> list[ModuleType]:
    package = importlib.import_module(OWN_PIPELINES)
    return [importlib.import_module(f"{OWN_PIPELINES}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]


def named_modules(names: Iterable[str]) -> list[ModuleType]:
    modules = [imported(name) for name in names]
    named.update(modules)
    return modules


def imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except EosError:
        raise
    except (ImportError, TypeError, ValueError) as error:
        raise EosError(
            f"Module {name} cannot be imported: {error}.",
            "Check its name (as in `import`, no path), and that it is installed or in PYTHONPATH.",
        ) from error
    except Exception as error:
        remedy = "Mend it."
        if "SESSION_OR_CONTEXT_NOT_EXISTS" in str(error):
            remedy = "Give a udf its return type as a type (StringType(), not 'string'); make columns in the transform."
        raise EosError(f"Module {name} raises {type(error).__name__}: {str(error).rstrip('.')}.", remedy) from error


def entry_point_modules() -> list[ModuleType]:
    return [imported(point.value) for point in importlib.metadata.entry_points(group=ENTRY_POINTS)]
