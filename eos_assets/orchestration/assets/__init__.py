"""The assets of a pipeline, and the experiment."""

OWNERS = ["team:data-platform"]
