"""The job that replays or discards dead letters, and what the asset of the dead letters shows of them."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from eos_assets.context import PipelineContext
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.letters.discard import discard_letters
from eos_assets.letters.letter import Letter, LetterFilter, count_by_reason, parse_letter, read_letters
from eos_assets.letters.marking import LetterReport
from eos_assets.letters.replay import ReplayOptions, replay_letters
from eos_assets.log.ledger import REJECTED
from eos_assets.orchestration.failures import MAX_RETRIES, eos_errors_as_failures
from eos_assets.orchestration.jobs import EXECUTOR
from eos_assets.orchestration.keys import dead_letters_key, pool_name
from eos_assets.orchestration.logs import forward_messages
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.platform.settings import Settings

#: How many letters and refusals are shown.
NEWEST = 10


ACTIONS = REPLAY, DISCARD = ("replay", "discard")


class LetterConfig(dg.Config):
    """Which letters of the pipeline, and what to do about them. Without a choice it is all that are open."""

    action: str = Field(default=REPLAY, description="replay or discard.")
    reasons: list[str] = Field(default=[], description="Only these reason codes.")
    partitions: list[int] = Field(default=[], description="Only these source partitions.")
    keys: list[str] = Field(default=[], description="Only records with these keys.")
    letters: list[str] = Field(default=[], description="Only these letters: partition/offset of the source record.")
    since_ms: int | None = Field(default=None, description="Only letters written at or after this time.")
    until_ms: int | None = Field(default=None, description="Only letters written before this time.")
    by: str = Field(default="dagster", description="Who replays or discards them.")
    why: str = Field(default="", description="Why they are discarded.")

    def chosen(self) -> LetterFilter:
        return LetterFilter(
            codes=frozenset(self.reasons),
            partitions=frozenset(self.partitions),
            origins=frozenset(map(parse_letter, self.letters)),
            keys=frozenset(key.encode() for key in self.keys),
            since_ms=self.since_ms,
            until_ms=self.until_ms,
        )


def dead_letter_job(pipeline: Pipeline) -> dg.JobDefinition:
    """Replays or discards dead letters of one pipeline."""

    @dg.op(
        name=f"{pipeline.name}_act_on_dead_letters",
        description=f"Replays dead letters of {pipeline.name} through today's transform, or discards them.",
        pool=pool_name(pipeline),
    )
    def act(context: dg.OpExecutionContext, config: LetterConfig, kafka: KafkaResource, spark: SparkResource) -> None:
        connection = kafka.connection()
        with eos_errors_as_failures(context), forward_messages(context.log):
            if config.action not in ACTIONS:
                raise EosError(f"The action {config.action!r} is not valid.", f"Use {' or '.join(ACTIONS)}.")
            if config.action == DISCARD:
                report = discard_letters(
                    pipeline, connection, config.chosen(), by=config.by, why=config.why, run_id=context.run_id
                )
            else:
                options = ReplayOptions(config.by, accepted_spark=Settings.load().accept_spark, run_id=context.run_id)
                replayed = PipelineContext(pipeline, spark.spark_session, connection)
                report = replay_letters(replayed, config.chosen(), options)
        metadata = {"result": dg.MetadataValue.md(describe(report)), **letters_metadata(pipeline, connection)}
        context.log_event(dg.AssetObservation(asset_key=dead_letters_key(pipeline), metadata=metadata))

    @dg.job(
        name=f"{pipeline.name}_dead_letters",
        description=f"Replays or discards dead letters of {pipeline.name}, exactly once.",
        executor_def=EXECUTOR,
        tags={MAX_RETRIES: "0"},  # what is left is left for a reason
    )
    def dead_letters() -> None:
        act()

    return dead_letters


def describe(report: LetterReport) -> str:
    """What a replay or discard did, and why letters are left."""
    left = {**report.marked(REJECTED), **report.refused}
    lines = [f"- {partition}/{offset}: {reason}" for (partition, offset), reason in list(left.items())[:NEWEST]]
    return "\n".join([str(report), "", *lines])


def letters_metadata(pipeline: Pipeline, connection: Connection) -> dict[str, Any]:
    """The open letters by reason, the newest ones, and how to act on them."""
    letters = read_letters(pipeline, connection)
    metadata: dict[str, Any] = {"open_letters": len(letters)}
    if not letters:
        return metadata
    return {
        **metadata,
        "letters_by_reason": dg.MetadataValue.table(reason_records(letters)),
        "newest_letters": dg.MetadataValue.table([letter_record(letter) for letter in letters[: -NEWEST - 1 : -1]]),
        "how_to_act": dg.MetadataValue.md(
            f"Correct the transform, then launch the job `{pipeline.name}_dead_letters`, or run\n\n"
            f"`eos dead-letters replay {pipeline.name} --reason CODE`\n\n"
            f"`eos dead-letters discard {pipeline.name} --reason CODE --why TEXT`"
        ),
    }


def reason_records(letters: Sequence[Letter]) -> list[dg.TableRecord]:
    return [
        dg.TableRecord({"code": group.code, "letters": group.letters, "newest reason": group.example})
        for group in count_by_reason(letters)
    ]


def letter_record(letter: Letter) -> dg.TableRecord:
    key = None if letter.key is None else letter.key.decode(errors="replace")
    partition, offset = letter.origin
    return dg.TableRecord({"letter": f"{partition}/{offset}", "key": key, "reason": letter.current_reason})
