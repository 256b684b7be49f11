"""On the driver: a run, from its preflight to its report."""
