"""The names that a pipeline uses on a cluster: a public contract, see docs/contract.md."""

from dataclasses import dataclass

from eos_assets.declare.modes import Mode


@dataclass(frozen=True)
class Names:
    """All names of one pipeline in one delivery mode and generation.

    A baseline delivery has names of its own, so that it never damages the real topics, and so has each generation.
    Only the transactional id is the same in all generations, so that each fences the others.
    """

    pipeline: str
    source: str
    default_sink: str
    mode: Mode = Mode.EXACTLY_ONCE
    generation: int = 1

    @property
    def group(self) -> str:
        return f"eos/{self.pipeline}{self._suffix('/')}"

    @property
    def proofs(self) -> str:
        """The group whose offsets are the checkpoint of the proof."""
        return f"{self.group}/proven"

    @property
    def last_proof(self) -> str:
        """The group that keeps the outcome of the last proof."""
        return f"{self.group}/last-proof"

    def transactional_id(self, partition: int) -> str:
        """Without a run id, an attempt or a host, because it must outlive them to fence them."""
        return f"{self.transactional_prefix}{self.source}/{partition}"

    @property
    def transactional_prefix(self) -> str:
        """The common prefix of the pipeline's transactional ids, for access lists."""
        return f"eos/{self.pipeline}/"

    @property
    def ledger(self) -> str:
        return self._own_topic("ledger")

    @property
    def provenance(self) -> str:
        return self._own_topic("provenance")

    @property
    def changelog(self) -> str:
        """The state of a stateful pipeline: key → state, compacted."""
        return self._own_topic("changelog")

    @property
    def seen(self) -> str:
        """The business keys that a stateful pipeline has seen within its horizon, compacted."""
        return self._own_topic("seen")

    @property
    def dead_letters(self) -> str:
        return f"{self.sink(self.default_sink)}-dead-letters"

    def sink(self, topic: str) -> str:
        return f"{topic}{self._mode_suffix('.')}"

    def _own_topic(self, purpose: str) -> str:
        return f"eos.{self.pipeline}{self._suffix('.')}.{purpose}"

    def _suffix(self, separator: str) -> str:
        generation = "" if self.generation == 1 else f"{separator}{self.generation}"
        return f"{generation}{self._mode_suffix(separator)}"

    def _mode_suffix(self, separator: str) -> str:
        return "" if self.mode is Mode.EXACTLY_ONCE else f"{separator}{self.mode}"
