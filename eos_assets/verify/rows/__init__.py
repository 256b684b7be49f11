"""Compare every row: the proof that shows which records violate an invariant."""
