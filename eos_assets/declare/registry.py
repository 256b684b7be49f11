"""Finds the declared pipelines: in modules that the caller names, and in installed packages."""

import difflib
import importlib
import importlib.metadata
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Iterator
from itertools import combinations
from types import ModuleType

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError

#: The entry point group under which an installed package names its pipeline modules.
ENTRY_POINTS = "eos_assets.pipelines"
NAME_MODULES = (
    "Name the module or package of your pipelines: with --module my.module, in EOS_MODULES, or in pyproject.toml as "
    'modules = ["my.module"] under [tool.eos].'
)


def find_pipelines(modules: Iterable[str] = ()) -> dict[str, Pipeline]:
    """All pipelines of these modules and of installed packages, by name; none is not an error.

    Two with one name are refused, because they would share a ledger and a group.
    """
    declared: dict[str, tuple[Pipeline, str]] = {}
    for module in import_all([*modules, *entry_points()]):
        for value in vars(module).values():
            if not isinstance(value, Pipeline):
                continue
            first, first_module = declared.setdefault(value.name, (value, module.__name__))
            if first is not value:
                raise EosError(
                    f"Two pipelines are named {value.name}: one in {first_module}, one in {module.__name__}.",
                    "Rename one of them: ledger, group and transactional id are named after the pipeline.",
                )
    pipelines = {name: pipeline for name, (pipeline, _) in sorted(declared.items())}
    refuse_undeclared_sharing(pipelines.values())
    return pipelines


def choose_pipelines(names: Iterable[str], modules: Iterable[str] = ()) -> list[Pipeline]:
    """The pipelines with these names; without names, all of them. Refuse to return none."""
    modules = list(modules)
    pipelines = find_pipelines(modules)
    if not pipelines:
        named = f" {', '.join(modules)} declare{'s' * (len(modules) == 1)} none." if modules else ""
        raise EosError(f"No pipeline was found.{named}", NAME_MODULES)
    chosen = list(names) or list(pipelines)
    for name in chosen:
        if name not in pipelines:
            near = difflib.get_close_matches(name, pipelines, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            known = f"The pipelines are: {', '.join(pipelines)}."
            raise EosError(f"There is no pipeline {name}.", f"{hint}{known}" + f" {NAME_MODULES}" * (not near))
    return [pipelines[name] for name in chosen]


def find_pipeline(name: str, modules: Iterable[str] = ()) -> Pipeline:
    """The pipeline with this name."""
    (pipeline,) = choose_pipelines([name], modules)
    return pipeline


def refuse_undeclared_sharing(pipelines: Iterable[Pipeline]) -> None:
    """Refuse pipelines that write to one topic without declaring it: to each, the other's records look invented."""
    for one, other in combinations(pipelines, 2):
        theirs = {topic.name for topic in other.own_topics()}
        shared = [topic.name for topic in one.own_topics() if topic.name in theirs]
        undeclared = [pipeline.name for pipeline in (one, other) if not pipeline.shared_sink]
        if shared and undeclared:
            raise EosError(
                f"Pipelines {one.name} and {other.name} both write to {shared[0]} without declaring it.",
                f"Declare shared_sink=True in {' and '.join(undeclared)}, or give one of them a sink of its own.",
            )


def entry_points() -> list[str]:
    """The pipeline modules of installed packages."""
    return [point.module for point in importlib.metadata.entry_points(group=ENTRY_POINTS)]


def import_all(names: Iterable[str]) -> Iterator[ModuleType]:
    """Import these modules, and of a package all modules inside."""
    for name in names:
        module = import_module(name)
        yield module
        children = pkgutil.iter_modules(getattr(module, "__path__", ()))
        yield from import_all(f"{name}.{child.name}" for child in children if child.name != "__main__")


def import_module(name: str) -> ModuleType:
    """Import a module that declares pipelines. The error names the module, the line of code and a remedy."""
    try:
        return importlib.import_module(name)
    except EosError as error:
        place = line_of(name, error)
        raise EosError(f"{error.problem.removesuffix('.')} ({place}).", error.remedy) if place else error from error
    except Exception as error:
        place = line_of(name, error)
        if isinstance(error, ImportError | TypeError | ValueError) and not place:
            raise EosError(
                f"Module {name} cannot be imported: {str(error).rstrip('.')}.",
                "Check its name (as in `import`, not a path), and that it is installed or in PYTHONPATH.",
            ) from error
        problem = f"Module {name} raises {type(error).__name__}: {str(error).rstrip('.')}"
        raise EosError(f"{problem} ({place})." if place else f"{problem}.", remedy_for(error)) from error


def line_of(name: str, error: Exception) -> str:
    """The line of this module, or of another one of its package, that failed while it was imported."""
    package = name.partition(".")[0]
    frames = traceback.walk_tb(error.__traceback__)
    own = [
        traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in frames
        if frame.f_code.co_name == "<module>" and frame.f_globals["__name__"].partition(".")[0] == package
    ]
    return f"{own[-1].filename}, line {own[-1].lineno}: {own[-1].line}" if own else ""


def remedy_for(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"Install {error.name} for {sys.executable}, or correct the import."
    if "SESSION_OR_CONTEXT_NOT_EXISTS" in str(error):
        return "Declare the return type of a UDF as an object (StringType()), and create columns in the transform."
    return "Correct the module."
