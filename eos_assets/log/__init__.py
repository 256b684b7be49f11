"""What a transaction leaves on the cluster: ledger, provenance, ranges of offsets."""
