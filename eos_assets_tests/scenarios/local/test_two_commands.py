"""Two users run one pipeline at the same time, each with a command of their own."""

import json
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from eos_assets.declare.options import Batching
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic
from eos_assets_tests.cli.command import eos
from eos_assets_tests.run.lab import MakeLab, squared

TWICE = """
import os
from pathlib import Path
from eos_assets.declare.options import Batching
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic
from eos_assets_tests.run.lab import squared
from eos_assets_tests.waiting import wait_for

PLANNED = Path("{planned}")

@pipeline(source=Topic("{name}-in"), sink=Topic("{name}-out"), batching=Batching(records=200), code_version="1")
def {name}(records):
    (PLANNED / str(os.getpid())).touch()
    wait_for(lambda: len(list(PLANNED.iterdir())) == 2)
    return squared(records)
"""


@pytest.mark.timeout(300)
def test_two_commands_at_once_commit_each_range_once(make_lab: MakeLab, tmp_path: Path) -> None:
    """F6 with two users: separate processes, each with its own Spark. Neither calls the transform before the other one
    has planned the same ranges, too."""
    name = f"twice_{uuid.uuid4().hex[:8]}"
    (tmp_path / "planned").mkdir()
    (tmp_path / f"{name}.py").write_text(TWICE.format(name=name, planned=tmp_path / "planned"))
    source, sink = Topic(f"{name}-in"), Topic(f"{name}-out")
    lab = make_lab(
        pipeline=pipeline(name=name, source=source, sink=sink, batching=Batching(records=200), code_version="1")(
            squared
        )
    )
    lab.fill(3000)
    env = {
        "EOS_BOOTSTRAP_SERVERS": lab.connection.bootstrap_servers,
        "EOS_SPARK": "in-process",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])]),
    }
    command = partial(eos, "run", name, "--module", name, "--json", **env)  # type: ignore[arg-type]
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(command) for _ in range(2)]
        reports = [json.loads(run.result().stdout) for run in runs]
    assert all(report["complete"] for report in reports)
    assert len(list((tmp_path / "planned").iterdir())) == 2, "they overlapped"
    lab.assert_squares(range(3000))
    assert lab.broken() == set()
