"""Topics that are not as they are declared."""

from dataclasses import replace

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from eos_assets.errors import EosError
from eos_assets_tests.run.lab import MakeLab


def test_a_topic_that_is_not_as_declared_is_refused_before_anything_runs(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.fill(30)
    more = lab.with_(sinks=(replace(lab.pipeline.sinks[0], partitions=4),))
    with pytest.raises(EosError, match="partitions is 3, declared 4"):
        more.run()
    fewer = lab.with_(source=replace(lab.pipeline.source, partitions=4))
    with pytest.raises(EosError, match="partitions is 3, declared 4"):
        fewer.run()
    ledger = ConfigResource(ResourceType.TOPIC, lab.pipeline.names().ledger)
    ledger.add_incremental_config(ConfigEntry("retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET))
    for future in lab.connection.admin.incremental_alter_configs([ledger]).values():
        future.result()
    with pytest.raises(EosError, match=r"retention.ms is 86400000, declared -1"):
        lab.run()
    assert lab.read() == []
