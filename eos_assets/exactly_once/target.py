"""One partition of one topic, and what one transaction writes to it."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eos_assets.exactly_once.routes import Integers


@dataclass
class Target:
    """One partition of one topic, and what this slice wrote to it, in order."""

    topic: str
    partition: int
    digest: int = 0
    count: int = 0
    source_offsets: list[Integers] = field(default_factory=list)
    sequences: list[npt.NDArray[np.int32]] = field(default_factory=list)

    def note(self, source_offsets: Integers, sequences: Integers) -> None:
        if source_offsets[0] == source_offsets[-1]:  # of one origin, perhaps a very wide one: one number will do
            source_offsets = np.broadcast_to(source_offsets[:1].copy(), source_offsets.shape)
        self.source_offsets.append(source_offsets)
        self.sequences.append(sequences.astype(np.int32))
        self.count += len(source_offsets)
