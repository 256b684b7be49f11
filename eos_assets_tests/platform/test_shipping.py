"""Functions of the user's modules run where those modules are not installed."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eos_assets.platform.shipping import pickle_by_value

cloudpickle: Any = importlib.import_module("pyspark.cloudpickle")  # its functions have no types
CALL = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read())(2))"


def test_functions_of_a_named_package_travel_as_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "eos_test_shipped"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("def square(number):\n    return number * number\n")
    (package / "udf.py").write_text(
        "from eos_test_shipped.helper import square\n\ndef apply(n):\n    return square(n)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    function = importlib.import_module("eos_test_shipped.udf").apply
    pickle_by_value(["eos_test_shipped", "eos_test_not_imported", "eos_assets.pipelines"])
    try:
        assert "eos_assets.pipelines" not in cloudpickle.list_registry_pickle_by_value(), "the executors have it"
        pickled = cloudpickle.dumps(function)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules["eos_test_shipped"])
    elsewhere = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run([sys.executable, "-c", CALL], input=pickled, env=elsewhere, capture_output=True, check=False)
    assert run.stdout == b"4\n", run.stderr
