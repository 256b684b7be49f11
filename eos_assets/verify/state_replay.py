"""Where the fold of a stateful pipeline can be repeated from.

It is repeated from the genesis with no state, if the source is retained from there on and the current code wrote all of
it; else from a snapshot; else not at all, and the finding gives the reason.
"""

from dataclasses import dataclass, field, replace

from eos_assets.context import PipelineContext
from eos_assets.kafka.reader import read_partition
from eos_assets.log import ledger
from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.log.ranges import OffsetRange
from eos_assets.state.snapshot import Snapshot
from eos_assets.verify.window.window import PartitionWindow, Window


@dataclass(frozen=True)
class ReplayStart:
    """The offset from which one source partition is folded again, and the ledger entry that ends it."""

    start: int
    from_snapshot: bool
    tail: LedgerEntry


@dataclass(frozen=True)
class StateHistory:
    """The part of the ledger of one source partition on which its state depends."""

    genesis: Genesis | None = None
    tail: LedgerEntry | None = None
    #: Up to here the state was made by other code.
    other_code: int = 0
    #: The records on which the function raised: they never were part of the fold.
    set_aside: tuple[int, ...] = ()


@dataclass(frozen=True)
class StateReplay:
    """The source ranges of one window that are folded again."""

    starts: dict[int, ReplayStart] = field(default_factory=dict)
    #: Source partitions that cannot be folded again, and why.
    reasons: dict[int, str] = field(default_factory=dict)
    #: Partition and offset of records that never were part of the fold.
    set_aside: tuple[tuple[int, int], ...] = ()

    @property
    def ranges(self) -> list[OffsetRange]:
        return [OffsetRange(p, s.start, s.tail.next) for p, s in sorted(self.starts.items()) if s.start < s.tail.next]

    @property
    def omissions(self) -> str:
        """Why some partitions are left out; empty if none is."""
        return "; ".join(f"partition {p}: {reason}" for p, reason in sorted(self.reasons.items()))

    def restrict(self, window: Window) -> Window:
        """The window, in which only outputs from the start of the replay on can be recomputed."""
        partitions = {
            p: replace(w, code_start=max(w.code_start, self.starts[p].start if p in self.starts else w.end))
            for p, w in window.partitions.items()
        }
        return replace(window, partitions=partitions)


def plan_replay(context: PipelineContext, window: Window, snapshot: Snapshot | None) -> StateReplay:
    """Find where each source partition of a window can be folded again from."""
    starts: dict[int, ReplayStart] = {}
    reasons: dict[int, str] = {}
    set_aside: list[tuple[int, int]] = []
    for partition, w in window.partitions.items():
        history = read_history(context, partition, w.end)
        set_aside += [(partition, offset) for offset in history.set_aside]
        start = replay_start(history, w, snapshot)
        if isinstance(start, ReplayStart):
            starts[partition] = start
        elif start:
            reasons[partition] = start
    return StateReplay(starts, reasons, tuple(set_aside))


def read_history(context: PipelineContext, partition: int, end: int) -> StateHistory:
    """Read the whole ledger of a partition: what other code wrote long ago is still in the state."""
    history = StateHistory()
    for message in read_partition(context.kafka, context.names.ledger, partition):
        row = ledger.read(message)
        if isinstance(row, Genesis):
            history = replace(history, genesis=history.genesis or row)
        elif isinstance(row, LedgerEntry) and row.next <= end:
            other_code = row.next if row.code_version != context.pipeline.code_version else history.other_code
            set_aside = (*history.set_aside, row.start) if row.isolated else history.set_aside
            history = replace(history, tail=row, other_code=other_code, set_aside=set_aside)
    return history


def replay_start(history: StateHistory, window: PartitionWindow, snapshot: Snapshot | None) -> ReplayStart | str:
    """Where one partition can be folded again from, or why it cannot; an empty text if nothing is written yet."""
    genesis, tail, other_code = history.genesis, history.tail, history.other_code
    if tail is None or genesis is None:
        return ""
    if not other_code and genesis.start >= window.log_start:
        return ReplayStart(genesis.start, False, tail)
    for part in snapshot.usable_parts() if snapshot else []:
        if part.partition == window.partition and max(other_code, window.log_start) <= part.position <= window.end:
            return ReplayStart(part.position, True, tail)
    if other_code:
        return "its state was made by other code, and there is no snapshot of it"
    return f"the source begins at {window.log_start}, the pipeline at {genesis.start}, and there is no snapshot"
