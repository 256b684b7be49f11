"""A run logs one line for each commit, retry and refusal, with the same fields."""

import logging

import pytest

from eos_assets.experiment.faults import Faults
from eos_assets_tests.run.lab import Lab


def events(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, object]]:
    return [vars(record) for record in caplog.records if vars(record).get("event") == event]


def test_each_commit_and_each_retry_is_a_line(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "eos_assets")
    lab.fill(30)
    report = lab.run(Faults(failpoint="before_commit", partition=1))
    commits = events(caplog, "commit")
    assert [line["partition"] for line in commits] == [0, 1, 2]
    for line, entry in zip(commits, report.entries, strict=True):
        assert line["levelno"] == logging.INFO
        assert (line["pipeline"], line["run"]) == (lab.pipeline.name, report.run)
        assert line["range"] == f"[{entry.start}, {entry.next})"
        assert (line["attempt"], line["task_attempt"]) == (entry.run_attempt, entry.task_attempt)
        assert line["transactional_id"] == f"eos/{lab.pipeline.name}/{lab.source}/{entry.partition}"
        assert line["records_in"] == entry.records_in
    assert sum(entry.run_attempt - 1 + entry.task_attempt for entry in report.entries) == 1
    for line in events(caplog, "retry"):
        assert (line["levelno"], line["run"], line["partitions"]) == (logging.WARNING, report.run, [1])
