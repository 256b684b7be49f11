"""The sensors of a pipeline: they request runs and updates, report commits, and raise alerts."""
