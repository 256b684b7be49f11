"""How it stays exactly once: plan, transaction, ledger, provenance, invariants. Nothing here imports Dagster."""
