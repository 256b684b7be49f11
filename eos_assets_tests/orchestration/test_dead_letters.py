"""The job of the dead letters replays or discards, and their asset shows what is left and how to act."""

from typing import Any

import dagster as dg

from eos_assets.letters.letter import LetterFilter, read_letters
from eos_assets.log.letter_marks import Status
from eos_assets_tests.orchestration.platform import Platform


def run_job(platform: Platform, **config: Any) -> dg.ExecuteInProcessResult:
    name = platform.pipeline.name
    return platform.defs.resolve_job_def(f"{name}_dead_letters").execute_in_process(
        instance=platform.instance,
        run_config={"ops": {f"{name}_act_on_dead_letters": {"config": config}}},
        raise_on_error=False,
    )


def observed(platform: Platform) -> dict[str, Any]:
    """The metadata of the last observation of the dead letters."""
    key = dg.AssetKey(platform.pipeline.names().dead_letters)
    records = platform.instance.fetch_observations(key, limit=1).records
    observation = records[0].asset_observation
    assert observation is not None
    return {
        name: [dict(record.data) for record in value.records]
        if isinstance(value, dg.TableMetadataValue)
        else value.value
        for name, value in observation.metadata.items()
    }


def test_letters_are_shown_and_acted_on_in_dagster(platform: Platform) -> None:
    lab = platform.lab
    lab.produce([b"1", b"x", b"y"])
    assert platform.materialize().success
    shown = observed(platform)
    assert shown["open_letters"] == 2
    assert shown["letters_by_reason"] == [{"code": "no integer", "letters": 2, "newest reason": "no integer"}]
    assert [row["letter"] for row in shown["newest_letters"]] == ["0/2", "0/1"]
    assert f"eos dead-letters replay {platform.pipeline.name}" in shown["how_to_act"]

    assert run_job(platform, letters=["0/1"]).success, "what fails again is a result, not a failure"
    assert "1 rejected again" in observed(platform)["result"]
    assert not run_job(platform, action="delete").success
    assert not run_job(platform, action="discard").success, "a discard needs a reason"
    discard = run_job(platform, action="discard", reasons=["no integer"], by="ann", why="a test")
    assert discard.success
    assert observed(platform)["open_letters"] == 0
    letters = read_letters(lab.pipeline, lab.connection, LetterFilter(statuses=frozenset({Status.DISCARDED})))
    assert {letter.mark.run for letter in letters if letter.mark} == {discard.run_id}
    assert not run_job(platform).success, "nothing is left to replay"
