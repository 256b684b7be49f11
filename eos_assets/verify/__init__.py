"""The proof: every invariant, evaluated on what is committed."""
