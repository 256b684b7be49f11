"""What a run logs: one line for each commit, retry, fencing and refusal, always with the same fields."""

import logging
from collections.abc import Iterable

from eos_assets.context import PipelineContext
from eos_assets.errors import Reaction
from eos_assets.log.ledger import LedgerEntry
from eos_assets.sink.job import NO_PARTITION, Outcome

logger = logging.getLogger(__name__)


class RunLog:
    """The lines of one run.

    Each has `event`, `pipeline`, `run` and `partitions`; one of a single partition also has `partition`, `range` and
    `transactional_id`.
    """

    def __init__(self, context: PipelineContext, run: str) -> None:
        self.context = context
        self.run = run

    def committed(self, entry: LedgerEntry) -> None:
        """One committed transaction, as the ledger has it."""
        self._log(
            logging.INFO,
            "commit",
            f"{entry.topic}/{entry.partition}: committed [{entry.start}, {entry.next})",
            attempt=entry.run_attempt,
            task_attempt=entry.task_attempt,
            **self._place(entry.partition, entry.start, entry.next),
            records_in=entry.records_in,
            records_out=entry.records_out,
            skipped=entry.skipped,
            dead=entry.dead,
            bytes_out=entry.bytes_out,
            seconds=(entry.ended_ms - entry.began_ms) / 1000,
            code_version=entry.code_version,
        )

    def ended(self, outcome: Outcome, attempt: int) -> None:
        """A partition that an attempt did not bring to its end: it is retried, fenced, or refused for good."""
        refused = outcome.reaction is Reaction.STOP
        self._log(
            logging.ERROR if refused else logging.WARNING,
            "refusal" if refused else "fenced" if outcome.reaction is Reaction.WAIT else "retry",
            f"partition {outcome.partition}: {outcome.reason}" if refused else f"attempt {attempt}: {outcome.reason}",
            attempt=attempt,
            task_attempt=outcome.task_attempt,
            code=outcome.code,
            **self._place(outcome.partition, outcome.start, outcome.next),
        )

    def failed(self, attempt: int, failure: str, partitions: Iterable[int]) -> None:
        """A whole job that Spark gave up. Its transactions were aborted, but for those that the ledger has."""
        chosen = sorted(partitions)
        self._log(logging.WARNING, "retry", f"attempt {attempt}: {failure}", attempt=attempt, partitions=chosen)

    def waiting(self, attempt: int, partitions: Iterable[int]) -> None:
        chosen = sorted(partitions)
        text = f"another run writes partitions {chosen}: waiting for it"
        self._log(logging.WARNING, "wait", text, attempt=attempt, partitions=chosen)

    def _place(self, partition: int, start: int, end: int) -> dict[str, object]:
        if partition == NO_PARTITION:  # a whole task failed
            return {"partitions": []}
        return {
            "partitions": [partition],
            "partition": partition,
            "range": f"[{start}, {end})",
            "transactional_id": self.context.names.transactional_id(partition),
        }

    def _log(self, level: int, event: str, message: str, **fields: object) -> None:
        known = {"event": event, "pipeline": self.context.pipeline.name, "run": self.run}
        logger.log(level, "%s", message, extra={**known, **fields})
