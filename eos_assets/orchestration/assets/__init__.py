"""The assets of a pipeline."""
