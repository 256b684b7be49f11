"""A transform that is changed between two runs."""

from eos_assets_tests.run.lab import MakeLab


def test_a_changed_transform_goes_on_at_the_same_position_and_is_reported(make_lab: MakeLab) -> None:
    from eos_assets.verify.verify import verify_pipeline

    lab = make_lab(partitions=1)
    lab.fill(100)
    lab.run()
    changed = lab.with_(transform=lambda records: records.select("key", "value", "origin"), version="another")
    lab.fill(50)
    changed.run()
    values = [int(value or 0) for value in lab.values()]
    assert sorted(values) == sorted([n * n for n in range(100)] + list(range(100, 150)))
    result = verify_pipeline(changed.pipeline, lab.spark, lab.connection)
    assert result.versions == [f"partition 0: from 0: {lab.pipeline.code_version}; from 100: another"]
    assert result.holds, "what other code wrote is not compared with the code of today"
    (values_recompute,) = [finding for finding in result.findings if finding.name == "values_recompute"]
    assert "100 offsets were written by other code" in values_recompute.detail
    again = verify_pipeline(changed.pipeline, lab.spark, lab.connection)
    assert again.incremental
    assert again.versions == result.versions
