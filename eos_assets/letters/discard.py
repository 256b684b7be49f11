"""Discard dead letters: a mark with who and why. The letter stays in its topic, and its record stays in the source."""

import time
import uuid

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.letters.letter import Letter, LetterFilter, by_partition, choose_letters
from eos_assets.letters.marking import LetterReport, fill_report, ledger_ends, write_marks
from eos_assets.log.ledger import DISCARDED, LetterMark
from eos_assets.run.preflight.permissions import check_permissions
from eos_assets.sink.job import Job
from eos_assets.sink.letters import MARK_CHARACTERS

#: The most marks of one transaction: they are in one ledger entry.
MARKS = 500


def discard_letters(
    pipeline: Pipeline, connection: Connection, chosen: LetterFilter, *, by: str, why: str, run_id: str | None = None
) -> LetterReport:
    """Mark the chosen letters as discarded.

    Args:
        pipeline: whose letters they are.
        connection: the cluster.
        chosen: which letters; there must be at least one.
        by: who decides it.
        why: the reason.
        run_id: the name of the run in the ledger; default: a random one.
    """
    if not why.strip() or len(why) > MARK_CHARACTERS:
        raise EosError(
            "A discard needs a reason." if not why.strip() else f"The reason has {len(why)} characters.",
            f"Say why in 1 to {MARK_CHARACTERS} characters: the mark keeps it forever.",
        )
    check_permissions(pipeline, connection)
    letters = choose_letters(pipeline, connection, chosen)
    started, starts = time.monotonic(), ledger_ends(pipeline, connection, letters)
    report = LetterReport(run_id or uuid.uuid4().hex[:12], pipeline.name, by)
    job = marking_job(pipeline, connection, report.run)
    for partition, in_partition in by_partition(letters):
        for low in range(0, len(in_partition), MARKS):
            marks = [discarded(letter, why) for letter in in_partition[low : low + MARKS]]
            write_marks(job, by, {partition: marks}, report)
    fill_report(report, pipeline, connection, starts, letters)
    report.seconds = time.monotonic() - started
    return report


def discarded(letter: Letter, why: str) -> LetterMark:
    return LetterMark(letter.origin[1], DISCARDED, why)


def marking_job(pipeline: Pipeline, connection: Connection, run: str) -> Job:
    """A job that writes marks and no records."""
    return Job(
        names=pipeline.names(),
        kafka=connection.config(),
        ranges={},
        geneses={},
        topic_ids={},
        sink_partitions={},
        default_topic=pipeline.sinks[0].name,
        run=run,
        run_attempt=1,
        code_version=pipeline.code_version,
        total=not pipeline.drops,
        batching=pipeline.batching,
    )
