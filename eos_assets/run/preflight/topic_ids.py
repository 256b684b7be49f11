"""Are the topics those that the pipeline began with?"""

from eos_assets.declare.generation import next_generation
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.log.ledger import Genesis


def check_ids(pipeline: Pipeline, genesis: Genesis | None, ids: dict[str, str]) -> None:
    """Refuse topics other than those of the genesis: in another topic an offset belongs to another record."""
    if genesis is None:
        return
    if pipeline.source.name not in genesis.topic_ids:
        present = {*ids, *pipeline.changelogs()}
        former = next((topic for topic in genesis.topic_ids if topic not in present), "another topic")
        raise EosError(
            f"{pipeline.name} began with {former} as its source, and is declared with {pipeline.source.name}: its "
            "positions are offsets of the former, and would skip records of the latter.",
            f"Give the pipeline another name, or {next_generation(pipeline)}.",
        )
    for topic, known in genesis.topic_ids.items():
        if topic in ids and ids[topic] != known:
            raise EosError(
                f"{topic} is not the topic that {pipeline.name} began with: it was deleted and created again (id "
                f"{known} then, {ids[topic]} now). A new topic starts at offset 0 again, so a run could repeat or lose "
                "records.",
                f"Restore the old topic, or {next_generation(pipeline)}.",
            )
