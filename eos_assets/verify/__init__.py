"""The proof: every invariant, evaluated on the committed records in the topics."""
