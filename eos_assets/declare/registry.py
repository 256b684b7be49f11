"""The declared pipelines of this project, of modules that the user names, and of installed packages."""

import importlib
import importlib.metadata
import pkgutil
from collections.abc import Iterable
from itertools import combinations
from types import ModuleType

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError

#: The entry point group under which a package names its pipeline modules.
ENTRY_POINTS = "eos_assets.pipelines"
#: The package of this project's own pipelines.
OWN_PIPELINES = "eos_assets.pipelines"
#: The modules that the user named in this process. They are shipped to the Spark workers.
user_modules: set[ModuleType] = set()


def find_pipelines(modules: Iterable[str] = ()) -> dict[str, Pipeline]:
    """All pipelines by name. Two with one name are refused, because they would share a ledger and a group."""
    declared: dict[str, tuple[Pipeline, str]] = {}
    for module in (*project_modules(), *import_user_modules(modules), *entry_point_modules()):
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


def find_pipeline(name: str, modules: Iterable[str] = ()) -> Pipeline:
    """The pipeline with this name."""
    pipelines = find_pipelines(modules)
    if name not in pipelines:
        raise EosError(
            f"There is no pipeline {name}.",
            f"Use one of {', '.join(pipelines)}, or name the module of your own with --module your.module.",
        )
    return pipelines[name]


def project_modules() -> list[ModuleType]:
    """The modules of this project's own pipelines."""
    package = importlib.import_module(OWN_PIPELINES)
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return [importlib.import_module(f"{OWN_PIPELINES}.{name}") for name in names]


def import_user_modules(names: Iterable[str]) -> list[ModuleType]:
    """Import the modules that the user named, and remember them for the Spark workers."""
    modules = [import_pipelines(name) for name in names]
    user_modules.update(modules)
    return modules


def import_pipelines(name: str) -> ModuleType:
    """Import a module that declares pipelines. The error names the module and a remedy."""
    try:
        return importlib.import_module(name)
    except EosError:
        raise
    except (ImportError, TypeError, ValueError) as error:
        raise EosError(
            f"Module {name} cannot be imported: {error}.",
            "Check its name (as in `import`, not a path), and that it is installed or in PYTHONPATH.",
        ) from error
    except Exception as error:
        remedy = "Fix the module."
        if "SESSION_OR_CONTEXT_NOT_EXISTS" in str(error):
            remedy = (
                "Declare the return type of a UDF as an object (StringType()), and create columns in the transform."
            )
        raise EosError(f"Module {name} raises {type(error).__name__}: {str(error).rstrip('.')}.", remedy) from error


def entry_point_modules() -> list[ModuleType]:
    """The pipeline modules of installed packages."""
    return [import_pipelines(point.value) for point in importlib.metadata.entry_points(group=ENTRY_POINTS)]
