"""Counts dead letters by reason, in a bounded number of labels."""

import re

from confluent_kafka import Message

from eos_assets.kafka.headers import UnreadableHeadersError, headers_of, last_header
from eos_assets.log.dead_letter import ERROR, PIPELINE

#: A reason is free text. More different ones than this are counted together, as are their last characters and numbers.
REASONS = 20
CHARACTERS = 100
OTHER = "other"


class DeadLetterReasons:
    """The dead letters of one pipeline by reason."""

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline
        self.counts: dict[str, int] = {}

    def add(self, message: Message) -> None:
        """Count a record of the dead-letter topic. Two pipelines that share a sink share this topic, too."""
        try:
            headers = headers_of(message)
        except UnreadableHeadersError:
            reason = OTHER
        else:
            if last_header(headers, PIPELINE) != self.pipeline.encode():
                return
            reason = label_of((last_header(headers, ERROR) or b"").decode(errors="replace"))
        if reason not in self.counts and len(self.counts) >= REASONS:
            reason = OTHER
        self.counts[reason] = self.counts.get(reason, 0) + 1


def label_of(reason: str) -> str:
    """The beginning of a reason, with 0 for every number: reasons that differ in a value are the same."""
    first = reason.strip().partition("\n")[0]
    return re.sub(r"\d+", "0", first)[:CHARACTERS].strip() or "none"
