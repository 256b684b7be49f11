"""The window of a proof: what was committed since the last proof, or all that is retained."""
