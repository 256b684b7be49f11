"""A client of a Dagster webserver that uses GraphQL, as the UI does."""

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LOCATION = {"repositoryLocationName": "eos_assets.definitions", "repositoryName": "__repository__"}
ENDED = ("SUCCESS", "FAILURE", "CANCELED")
#: The job of the runs that a click on Materialize launches.
CLICKED = "__ASSET_JOB"


@dataclass(frozen=True)
class Run:
    """One run: when it was created and ended, and the start and end of each of its steps."""

    id: str
    job: str
    status: str
    created: float
    ended: float | None
    tags: dict[str, str]
    steps: dict[str, tuple[float, float]]


class Graphql:
    """Queries to one webserver."""

    def __init__(self, address: str) -> None:
        self.address = address

    def query(self, text: str, **variables: Any) -> Any:
        body = json.dumps({"query": text, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.address}/graphql", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            content = json.load(response)
        assert "errors" not in content, content["errors"]
        return content["data"]

    def runs(self, job: str | None = None, **tags: str) -> list[Run]:
        """The runs of a job, or with these tags, the newest first."""
        query = """query($f: RunsFilter!) {runsOrError(filter: $f) {... on Runs {results {
            runId jobName status creationTime endTime tags {key value} stepStats {stepKey startTime endTime}
        }}}}"""
        wanted = {
            **({"pipelineName": job} if job else {}),
            "tags": [{"key": name.replace("__", "/"), "value": value} for name, value in tags.items()],
        }
        return [
            Run(
                row["runId"],
                row["jobName"],
                row["status"],
                row["creationTime"],
                row["endTime"],
                {tag["key"]: tag["value"] for tag in row["tags"]},
                {s["stepKey"]: (s["startTime"], s["endTime"]) for s in row["stepStats"] if s["endTime"]},
            )
            for row in self.query(query, f=wanted)["runsOrError"]["results"]
        ]

    def finished(self, job: str) -> str | None:
        """The id of a run of a job that has ended."""
        query = "query($f: RunsFilter!) {runsOrError(filter: $f) {... on Runs {results {runId}}}}"
        ended = self.query(query, f={"pipelineName": job, "statuses": ENDED})["runsOrError"]["results"]
        return str(ended[0]["runId"]) if ended else None

    def status(self, run_id: str) -> str:
        query = "query($id: ID!) {runOrError(runId: $id) {... on Run {status}}}"
        return str(self.query(query, id=run_id)["runOrError"]["status"])

    def ended(self, run_id: str) -> str | None:
        """The status of a run, once it has ended."""
        status = self.status(run_id)
        return status if status in ENDED else None

    def events(self, run_id: str) -> list[dict[str, Any]]:
        query = """query($id: ID!) {logsForRun(runId: $id) {... on EventConnection {events {
            __typename
            ... on MessageEvent {message}
            ... on AssetCheckEvaluationEvent {evaluation {checkName success description}}
            ... on MaterializationEvent {
                assetKey {path} partition metadataEntries {label ... on IntMetadataEntry {intValue}}
            }
        }}}}"""
        events: list[dict[str, Any]] = self.query(query, id=run_id)["logsForRun"]["events"]
        return events

    def figures(self, run_id: str, *key: str) -> list[dict[str, int | None]]:
        """The metadata of an asset's materializations in one run: label → number, None if it is not a number."""
        return [
            {entry["label"]: entry.get("intValue") for entry in event["metadataEntries"]}
            for event in self.events(run_id)
            if event["__typename"] == "MaterializationEvent" and event["assetKey"]["path"] == list(key)
        ]

    def materializations(self, *key: str) -> list[dict[str, Any]]:
        """The last materializations of an asset: run, partition, and the texts of the metadata."""
        query = """query($k: AssetKeyInput!) {assetNodeOrError(assetKey: $k) {... on AssetNode {
            assetMaterializations(limit: 50) {
                runId partition metadataEntries {label ... on TextMetadataEntry {text}}
            }
        }}}"""
        rows = self.query(query, k={"path": key})["assetNodeOrError"]["assetMaterializations"]
        return [
            {
                "runId": row["runId"],
                "partition": row["partition"],
                **{entry["label"]: entry.get("text") for entry in row["metadataEntries"]},
            }
            for row in rows
        ]

    def check_evaluations(self, run_id: str) -> dict[str, bool]:
        """Check → whether it passed, in one run."""
        rows = [event["evaluation"] for event in self.events(run_id) if "evaluation" in event]
        return {row["checkName"]: row["success"] for row in rows}

    def ticks(self, sensor: str) -> list[dict[str, Any]]:
        """The last ticks of a sensor, the newest first."""
        query = """query($s: InstigationSelector!) {instigationStateOrError(instigationSelector: $s) {
            ... on InstigationState {
                ticks(limit: 20) {timestamp endTimestamp status skipReason runIds error {message causes {message}}}
            }
        }}"""
        state = self.query(query, s={**LOCATION, "name": sensor})["instigationStateOrError"]
        ticks: list[dict[str, Any]] = state.get("ticks", [])
        return ticks

    def partitions(self, *key: str) -> list[str]:
        """The partition keys of an asset."""
        query = "query($k: AssetKeyInput!) {assetNodeOrError(assetKey: $k) {... on AssetNode {partitionKeys}}}"
        keys: list[str] = self.query(query, k={"path": key})["assetNodeOrError"]["partitionKeys"]
        return keys

    def launch(self, job: str, tags: dict[str, str], config: dict[str, Any] | None = None, assets: Any = None) -> str:
        """Launch a job of the project's code location, for the partitions that its tags name."""
        query = """mutation($p: ExecutionParams!) {launchRun(executionParams: $p) {
            __typename ... on LaunchRunSuccess {run {runId}} ... on PythonError {message}
        }}"""
        params = {
            "selector": {**LOCATION, "jobName": job, "assetSelection": assets},
            "runConfigData": config or {},
            "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        }
        answer = self.query(query, p=params)["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])

    def backfill(self, topics: list[str], partitions: list[str]) -> str:
        """Launch a backfill of these assets, as the UI does for several partitions."""
        query = """mutation($p: LaunchBackfillParams!) {launchPartitionBackfill(backfillParams: $p) {
            __typename ... on LaunchBackfillSuccess {backfillId} ... on PythonError {message}
        }}"""
        params = {"assetSelection": [{"path": [topic]} for topic in topics], "partitionNames": partitions}
        answer = self.query(query, p=params)["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        return str(answer["backfillId"])

    @contextlib.contextmanager
    def closed_pool(self, pool: str) -> Iterator[None]:
        """Keep the runs of this pool in the queue meanwhile."""
        close = "mutation($pool: String!) {setConcurrencyLimit(concurrencyKey: $pool, limit: 0)}"
        reopen = "mutation($pool: String!) {deleteConcurrencyLimit(concurrencyKey: $pool)}"
        self.query(close, pool=pool)
        try:
            yield
        finally:
            self.query(reopen, pool=pool)  # the limit of dagster.yaml applies again
