"""The names that a pipeline leaves on a cluster: a public contract, see docs/contract.md."""

import re
from dataclasses import dataclass

from eos_assets.declare.modes import Mode


@dataclass(frozen=True)
class Names:
    """All names of one pipeline in one delivery mode and generation. A weaker mode has its own, so it never spoils the
    real ones; so has a later generation, to begin anew. Only the transactional id stays: it fences them all."""

    pipeline: str
    source: str
    default_sink: str
    mode: Mode = Mode.EXACTLY_ONCE
    generation: int = 1

    @property
    def group(self) -> str:
        return f"eos/{self.pipeline}{self._later('/')}{self._weaker('/')}"

    @property
    def proofs(self) -> str:
        """The group whose offsets say up to where everything was proven."""
        return f"{self.group}/proven"

    def transactional_id(self, partition: int) -> str:
        """Never a run id, an attempt or a host in it: the id must outlive them to fence them."""
        return f"{self.transactional_prefix}{self.source}/{partition}"

    @property
    def transactional_prefix(self) -> str:
        """What all transactional ids of the pipeline begin with, for access lists."""
        return f"eos/{self.pipeline}/"

    @property
    def ledger(self) -> str:
        return f"eos.{self.pipeline}{self._later('.')}{self._weaker('.')}.ledger"

    @property
    def provenance(self) -> str:
        return f"eos.{self.pipeline}{self._later('.')}{self._weaker('.')}.provenance"

    @property
    def changelog(self) -> str:
        """The state of a stateful pipeline: key → state, compacted."""
        return f"eos.{self.pipeline}{self._later('.')}{self._weaker('.')}.changelog"

    @property
    def seen(self) -> str:
        """The business keys that a stateful pipeline has seen within its horizon, compacted."""
        return f"eos.{self.pipeline}{self._later('.')}{self._weaker('.')}.seen"

    @property
    def dead_letters(self) -> str:
        return f"{self.sink(self.default_sink)}-dead-letters"

    def sink(self, topic: str) -> str:
        return f"{topic}{self._weaker('.')}"

    def _later(self, separator: str) -> str:
        return "" if self.generation == 1 else f"{separator}{self.generation}"

    def _weaker(self, separator: str) -> str:
        return "" if self.mode is Mode.EXACTLY_ONCE else f"{separator}{self.mode}"


def parse_transactional_id(text: str) -> tuple[str, str, int]:
    """The inverse of `Names.transactional_id`: pipeline, source topic, partition."""
    match = re.fullmatch(r"eos/([^/]+)/([^/]+)/(\d+)", text)
    if match is None:
        raise ValueError(f"{text} is no transactional id of ours")
    return match.group(1), match.group(2), int(match.group(3))
