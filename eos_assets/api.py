"""The decorators of `import eos_assets as eos`, and the pipelines that they declare."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, ParamSpec, TypeVar, overload

from eos_assets.declare import arrow_pipeline as arrow_declaration
from eos_assets.declare import pipeline as declaration
from eos_assets.declare import stateful as stateful_declaration
from eos_assets.declare.check import Check, Finding
from eos_assets.errors import EosError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eos_assets.kafka.connection import Connection
    from eos_assets.run.preview import Preview
    from eos_assets.run.report import RunReport
    from eos_assets.testing import Content, Result
    from eos_assets.verify.findings import Verification
    from eos_assets.verify.proof import Proof

Parameters = ParamSpec("Parameters")
Function = TypeVar("Function")
Runnable = TypeVar("Runnable", bound="RunnablePipeline")
Rule = Callable[["Proof"], Finding]


class RunnablePipeline(declaration.Pipeline):
    """A declared pipeline that runs, proves and previews itself.

    Its methods use the Spark and the Kafka of the settings, as the `eos` command does, unless others are passed.
    """

    def run(
        self,
        *,
        partitions: Iterable[int] | None = None,
        max_records: int | None = None,
        spark: "SparkSession | None" = None,
        kafka: "Connection | None" = None,
    ) -> "RunReport":
        """Process the source up to its last stable offset.

        Args:
            partitions: the source partitions; default: all.
            max_records: at most this many offsets of each partition.
            spark: where the transform is computed.
            kafka: the cluster that holds the topics.
        """
        from eos_assets.platform.settings import Settings
        from eos_assets.run.run import RunOptions, run_pipeline

        settings = Settings.load()
        options = RunOptions(
            partitions=partitions,
            max_records=max_records,
            lake=settings.lake if self.stateful else None,
            accepted_spark=settings.accept_spark,
        )
        return run_pipeline(self, spark or default_spark(), kafka or default_kafka(), options)

    def verify(
        self, *, full: bool = False, spark: "SparkSession | None" = None, kafka: "Connection | None" = None
    ) -> "Verification":
        """Evaluate every invariant and every check of the pipeline.

        Args:
            full: prove all that is retained, not only what was written since the last proof.
            spark: where the transform is computed again.
            kafka: the cluster that holds the topics.
        """
        from eos_assets.platform.settings import Settings
        from eos_assets.verify.verify import verify_pipeline

        session, cluster = spark or default_spark(), kafka or default_kafka()
        lake = Settings.load().lake if self.stateful else None
        verification = verify_pipeline(self, session, cluster, full=full, lake=lake)
        findings = [check.finding(self, session, cluster) for check in self.checks]
        return replace(verification, findings=[*verification.findings, *findings])

    def preview(
        self, count: int = 5, *, spark: "SparkSession | None" = None, kafka: "Connection | None" = None
    ) -> "list[Preview]":
        """The last source records, each with what the transform returns for it. Nothing is written."""
        from eos_assets.run.preview import preview

        return preview(self, spark or default_spark(), kafka or default_kafka(), count)

    @overload
    def check(self, rule: Rule) -> Rule: ...

    @overload
    def check(self, *, blocking: bool = True) -> Callable[[Rule], Rule]: ...

    def check(self, rule: Rule | None = None, *, blocking: bool = True) -> Rule | Callable[[Rule], Rule]:
        """Add a check: a function from an `eos.Proof` to an `eos.Finding`, named as a fact.

        Args:
            rule: the function; its name is the name of the check, its docstring the description.
            blocking: whether assets downstream of the sink wait until the check passes.
        """

        def add(rule: Rule) -> Rule:
            description = inspect.cleandoc(rule.__doc__ or rule.__name__.replace("_", " "))
            declared = Check(rule.__name__, description, evaluation_of(rule), blocking=blocking)
            object.__setattr__(self, "checks", (*self.checks, declared))  # only while its module is imported
            return rule

        return add if rule is None else add(rule)


class FramePipeline(RunnablePipeline):
    """A pipeline whose function takes DataFrames: `eos.Pipeline`."""

    def test(self, spark: "SparkSession", rows: "Sequence[tuple[Content, Content]]") -> "list[Result]":
        """What the transform returns for these keys and values, in their order, without Kafka.

        An output is its (key, value), a rejected record a `Rejected`, a skipped one a `Skipped`. A stateful pipeline
        starts with an empty state.
        """
        from eos_assets.testing import results, sample_records

        return results(self.transform(sample_records(spark, rows)))


class ArrowPipeline(RunnablePipeline):
    """A pipeline whose function takes Arrow batches: `eos.ArrowPipeline`."""

    def test(self, rows: "Sequence[tuple[Content, Content]]") -> "list[Result]":
        """What the function returns for a batch of these keys and values, in their order, without Spark and Kafka.

        An output is its (key, value), a rejected record a `Rejected`, a skipped one a `Skipped`.
        """
        from eos_assets.testing import batch_results, sample_batch
        from eos_assets.transform.arrow_function import ArrowFunction

        return batch_results(ArrowFunction.of(self), sample_batch(rows))


def evaluation_of(rule: Rule) -> "Callable[[declaration.Pipeline, SparkSession, Connection], Finding]":
    """The function that evaluates a rule on all that is retained."""

    def evaluate(pipeline: declaration.Pipeline, spark: "SparkSession", kafka: "Connection") -> Finding:
        from eos_assets.context import PipelineContext
        from eos_assets.transform.user_code import checking, type_name
        from eos_assets.verify.proof import Proof
        from eos_assets.verify.topic_frames import TopicFrames
        from eos_assets.verify.window.reader import read_window

        context = PipelineContext(pipeline, spark, kafka)
        proof = Proof(TopicFrames(context, read_window(context, full=True)))
        with checking(pipeline, rule.__name__):
            finding: object = rule(proof)
        if not isinstance(finding, Finding):
            returned = type_name(finding)
            raise EosError(
                f"Check {rule.__name__} of pipeline {pipeline.name} returned {returned} instead of a Finding.",
                "Return `proof.finding(…)` or `proof.not_evaluated(…)`.",
            )
        return finding

    return evaluate


def with_operations(
    kind: type[Runnable], declare: Callable[Parameters, Callable[[Function], declaration.Pipeline]]
) -> Callable[Parameters, Callable[[Function], Runnable]]:
    """The same decorator, for a pipeline that runs itself."""

    @functools.wraps(declare)
    def decorator(*args: Parameters.args, **options: Parameters.kwargs) -> Callable[[Function], Runnable]:
        wrapped = declare(*args, **options)

        def wrap(function: Function) -> Runnable:
            declared = wrapped(function)
            return kind(**{field.name: getattr(declared, field.name) for field in fields(declared)})

        return wrap

    return decorator


pipeline = with_operations(FramePipeline, declaration.pipeline)
stateful = with_operations(FramePipeline, stateful_declaration.stateful)
arrow_pipeline = with_operations(ArrowPipeline, arrow_declaration.arrow_pipeline)


def default_kafka() -> "Connection":
    """The cluster of the settings."""
    from eos_assets.platform.cluster import connect
    from eos_assets.platform.settings import Settings

    return connect(Settings.load())


@functools.cache
def default_spark() -> "SparkSession":
    """The session of all calls in this process."""
    from eos_assets.platform.settings import Settings
    from eos_assets.platform.spark_session import start_session

    return start_session(Settings.load())
