"""The sensors of a pipeline: they request runs for new records and failed checks, and raise alerts."""
