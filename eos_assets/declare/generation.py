"""The remedy for a pipeline that cannot go on: its next generation."""

from eos_assets.declare.pipeline import Pipeline


def next_generation(pipeline: Pipeline) -> str:
    """The remedy as the end of a sentence in the imperative. A generation has its own ledger and state, and starts at
    the first record that the source still holds. Its sink must be new or shared, because the records of the earlier
    generation are not its own."""
    return f"declare generation={pipeline.generation + 1} with a new sink (or with shared_sink=True)"
