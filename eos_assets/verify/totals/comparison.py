"""Compare totals of a window: sinks, maps and source are each read once, in order, without a sort, shuffle or join.

If a total differs, or an invariant cannot be decided from totals, the result is None. Then every row is compared
(`rows`), which shows the records in question. docs/decisions/0013 gives the reasons.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from eos_assets.transform.business_key import repeated_keys
from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.observations import Observation, Observations
from eos_assets.verify.recomputation import Recomputation
from eos_assets.verify.scope import ProofScope
from eos_assets.verify.totals.map_reader import MapClaims, MapReader
from eos_assets.verify.totals.pass_results import PassResults
from eos_assets.verify.totals.passes import TotalsPasses
from eos_assets.verify.totals.total import Total, UndecidedError, of_aggregates


@dataclass(frozen=True)
class TotalsComparison:
    """One comparison, of committed records in exactly-once mode."""

    recomputation: Recomputation
    scope: ProofScope

    def observe(self) -> Observations | None:
        """The figures of a window in which every total is equal, or None if every row has to be compared."""
        context, window = self.recomputation.context, self.recomputation.window
        isolates = context.pipeline.on_error == "isolate" and self.recomputation.state is None
        try:
            claims = MapReader(context.kafka, context.names.provenance, window, self.scope, isolates=isolates).read()
            return self.compare(claims, TotalsPasses(self.recomputation, self.scope, claims).run())
        except UndecidedError:
            return None

    def compare(self, claims: MapClaims, results: PassResults) -> Observations:
        """The figures of the window; `UndecidedError` if any total differs."""
        pipeline = self.recomputation.context.pipeline
        violation = next((row[0] for row in results["sink"] if row[0]), "")
        named = sum(row[2] for row in results["sink"])
        if violation or named != claims.named:
            raise UndecidedError(violation or "rows of the maps without a visible record")
        if any(n for n, *_ in results["misplaced"]):
            raise UndecidedError("source records in another partition than that of their key")
        recomputed = add(of_aggregates(*row) for row in results["recomputed"])
        if pipeline.deterministic and recomputed != add(Total(*row[3:5]) for row in results["sink"]):
            raise UndecidedError("the transform, run again, gives other outputs")
        visible = add(of_aggregates(*row) for row in results["visible"])
        observations = Observations(Observation)
        if pipeline.drops:
            observations["dropped"].examples = self.dropped(claims, results)
        elif visible != claims.origins:
            raise UndecidedError("the maps name other source records than the visible ones")
        observations["source_records"].n = visible.n
        observations["sink_records"].n = sum(row[1] for row in results["sink"])
        observations["outputs_with_origin"].n = named
        observations["newer"].n = claims.newer
        observations["sum"].examples = [json.dumps(row) for row in results["sum"]]
        observations["source_is_unique"] = self.repeated(sum(n for n, *_ in results["repeated"]))
        return observations

    def dropped(self, claims: MapClaims, results: PassResults) -> list[str]:
        """The number of records of each transaction that the transform drops: the maps must name all others."""
        if any(w.recomputable.start > w.source.start for w in self.recomputation.window.partitions.values()):
            raise UndecidedError("what other code dropped is not known")
        if add(of_aggregates(*row) for row in results["kept"]) != claims.rows or claims.set_aside:
            raise UndecidedError("the maps name other source records than the transform keeps")
        counts: dict[tuple[int, int], int] = defaultdict(int)
        for partition, start, n in results["transaction"]:
            counts[partition, start] += n
        kept = claims.per_transaction
        return [json.dumps([*transaction, n - kept.get(transaction, 0)]) for transaction, n in counts.items()]

    def repeated(self, n: int) -> Observation:
        """Repeated business keys, with examples only if there are any."""
        if not n:
            return Observation()
        keys = repeated_keys(self.recomputation.frames.source(), self.recomputation.context.pipeline)
        return Observation(n, [row.text for row in keys.limit(SHOWN).collect()])


def add(totals: Iterable[Total]) -> Total:
    return sum(totals, Total())
