"""A real Dagster webserver, asked over GraphQL as its own UI does."""

import json
import urllib.request
from typing import Any


class Graphql:
    """Questions to one webserver."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, query: str, **variables: Any) -> Any:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.address}/graphql", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = json.load(answer)
        assert "errors" not in content, content["errors"]
        return content["data"]

    def runs(self, job: str) -> list[dict[str, str]]:
        query = "query($f: RunsFilter!) {runsOrError(filter: $f) {... on Runs {results {runId status}}}}"
        found: list[dict[str, str]] = self.ask(query, f={"pipelineName": job})["runsOrError"]["results"]
        return found

    def finished(self, job: str) -> str | None:
        """The id of a run of a job that has come to its end."""
        ended = [run["runId"] for run in self.runs(job) if run["status"] in ("SUCCESS", "FAILURE")]
        return ended[0] if ended else None

    def status(self, run_id: str) -> str:
        query = "query($id: ID!) {runOrError(runId: $id) {... on Run {status}}}"
        return str(self.ask(query, id=run_id)["runOrError"]["status"])

    def ended(self, run_id: str) -> str | None:
        """The status of a run, once it has come to its end."""
        status = self.status(run_id)
        return status if status in ("SUCCESS", "FAILURE", "CANCELED") else None

    def events(self, run_id: str) -> list[dict[str, Any]]:
        query = """query($id: ID!) {logsForRun(runId: $id) {... on EventConnection {events {
            __typename
            ... on AssetCheckEvaluationEvent {evaluation {checkName success description}}
            ... on MaterializationEvent {assetKey {path} partition metadataEntries {label}}
        }}}}"""
        found: list[dict[str, Any]] = self.ask(query, id=run_id)["logsForRun"]["events"]
        return found

    def check_evaluations(self, run_id: str) -> dict[str, bool]:
        """Check → whether it passed, in one run."""
        rows = [event["evaluation"] for event in self.events(run_id) if "evaluation" in event]
        return {row["checkName"]: row["success"] for row in rows}

    def launch(self, job: str, tags: dict[str, str], config: dict[str, Any] | None = None) -> str:
        """Launches a job of the project's code location, for partitions or a range by its tags."""
        query = """mutation($p: ExecutionParams!) {launchRun(executionParams: $p) {
            __typename ... on LaunchRunSuccess {run {runId}} ... on PythonError {message}
        }}"""
        location = "eos_assets.definitions"
        params = {
            "selector": {
                "repositoryLocationName": location,
                "repositoryName": "__repository__",
                "jobName": job,
            },
            "runConfigData": config or {},
            "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        }
        answer = self.ask(query, p=params)["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])
