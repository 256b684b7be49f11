"""Are the topics as they are declared?"""

from eos_assets.context import PipelineContext
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.kafka.admin import Difference, TopicReport


def check_declarations(context: PipelineContext, reports: list[TopicReport]) -> None:
    """Refuse a topic that differs from its declaration, in anything that the declaration names."""
    for report in reports:
        for difference in report.differences:
            if not is_tolerable(context, report.topic, difference):
                raise EosError(
                    f"{report.topic.name} is not as {context.pipeline.name} declares it: {difference}. Nothing was "
                    "written.",
                    "Change the topic with Kafka's own tools, or the declaration.",
                )


def is_tolerable(context: PipelineContext, topic: Topic, difference: Difference) -> bool:
    """Whether a run can live with a difference. The source belongs to its producers, and may have grown; the
    pipeline's own topics grow with it; the sinks must be exactly as declared."""
    if difference.setting == "min.insync.replicas" and topic.min_insync_replicas is None:
        return True
    if topic is context.pipeline.source:
        return difference.setting != "partitions" or int(difference.actual or 0) > topic.partitions
    if topic.name in {context.names.sink(sink.name) for sink in context.pipeline.sinks}:
        return False
    return difference.setting == "partitions"
