"""No code of the package turns data into code or objects: no pickle, eval, exec, marshal or unsafe YAML."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "eos_assets"
#: Modules whose functions run what they read.
UNSAFE_MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "jsonpickle", "marshal", "shelve", "joblib"}
UNSAFE_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.system",
    "os.popen",
    "numpy.load",
    "pandas.read_pickle",
    "pandas.eval",
    "yaml.load",
    "yaml.load_all",
    "yaml.full_load",
    "yaml.unsafe_load",
}
#: Place and what it uses → why it is safe.
ALLOWED = {
    ("platform/shipping.py", "pyspark.cloudpickle.cloudpickle"): "names modules that Spark pickles; it reads nothing",
}


def unsafe_uses(source: str) -> set[str]:
    """What a module imports or calls that may run data, by its full name, whatever the module calls it."""
    tree = ast.parse(source)
    names: dict[str, str] = {}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
            names |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported = [node.module or ""]
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        else:
            continue
        found |= {module for module in imported if UNSAFE_MODULES & set(module.split("."))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = full_name(node.func, names)
            found |= {called} if called in UNSAFE_CALLS else set()
            found |= {"shell=True"} if any(is_shell(keyword) for keyword in node.keywords) else set()
    return found


def full_name(function: ast.expr, names: dict[str, str]) -> str:
    if isinstance(function, ast.Attribute):
        return f"{full_name(function.value, names)}.{function.attr}"
    return names.get(function.id, function.id) if isinstance(function, ast.Name) else ""


def is_shell(keyword: ast.keyword) -> bool:
    return keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)


def test_no_module_runs_data() -> None:
    found = {
        (str(path.relative_to(PACKAGE)), use) for path in PACKAGE.rglob("*.py") for use in unsafe_uses(path.read_text())
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    ("source", "use"),
    [
        ("import pickle", "pickle"),
        ("from pickle import loads", "pickle"),
        ("from pyspark import cloudpickle as c\nfrom pyspark.cloudpickle import x", "pyspark.cloudpickle"),
        ("import yaml as y\ny.load(text)", "yaml.load"),
        ("from yaml import unsafe_load as read\nread(text)", "yaml.unsafe_load"),
        ("eval(text)", "eval"),
        ("exec(text)", "exec"),
        ("import marshal", "marshal"),
        ("import numpy as np\nnp.load(path)", "numpy.load"),
        ("import subprocess\nsubprocess.run(text, shell=True)", "shell=True"),
    ],
)
def test_each_of_them_is_found(source: str, use: str) -> None:
    assert use in unsafe_uses(source)


def test_what_only_sounds_like_it_is_not() -> None:
    assert unsafe_uses("import re, yaml\nre.compile(text)\nyaml.safe_load(text)\nmodel.eval(text)") == set()
