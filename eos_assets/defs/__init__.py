"""What Dagster shows: thin objects around the package that keeps it exactly once."""
