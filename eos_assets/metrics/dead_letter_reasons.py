"""Counts dead letters by reason, in a bounded number of labels."""

from confluent_kafka import Message

from eos_assets.kafka.headers import UnreadableHeadersError, headers_of, last_header
from eos_assets.log.dead_letter import CODE, ERROR, PIPELINE, reason_code

#: The code of a reason may be a part of a free text. More different ones than this are counted together.
REASONS = 20
OTHER = "other"


class DeadLetterReasons:
    """The dead letters of one pipeline by the code of their reason, as `eos dead-letters list` groups them."""

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
            code, error = last_header(headers, CODE), last_header(headers, ERROR) or b""
            reason = code.decode(errors="replace") if code else reason_code(error.decode(errors="replace"))
        if reason not in self.counts and len(self.counts) >= REASONS:
            reason = OTHER
        self.counts[reason] = self.counts.get(reason, 0) + 1
