"""The assets of a pipeline, and the experiment."""
