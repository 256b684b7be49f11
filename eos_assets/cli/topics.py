"""`eos topics`: create the declared topics, and compare them with the cluster."""

from collections.abc import Callable

import click
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.options import EosCommand, mode_option, module_option
from eos_assets.declare.modes import Mode
from eos_assets.declare.registry import choose_pipelines
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.kafka.admin import TopicReport, compare_topics, create_topics
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings

COLOURS = {"created": "green", "present": "green", "missing": "yellow", "different": "red"}


@click.group("topics")
def topics_command() -> None:
    """Create and compare the declared topics. An existing topic is never altered."""


def topic_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options by which both commands choose topics."""
    names = click.argument("names", nargs=-1)
    pipelines = click.option("--pipeline", "pipelines", multiple=True, help="Only those of this pipeline; repeatable.")
    return names(pipelines(module_option(mode_option(command))))


@topics_command.command("create", cls=EosCommand)
@topic_options
def create_command(names: tuple[str, ...], pipelines: tuple[str, ...], mode: str) -> None:
    """Create the topics of all pipelines that are found, or only NAMES, unless they exist."""
    settings = Settings.load()
    show(create_topics(choose_topics(names, pipelines, settings.modules, Mode(mode)), connect(settings)))


@topics_command.command("list", cls=EosCommand)
@topic_options
def list_command(names: tuple[str, ...], pipelines: tuple[str, ...], mode: str) -> None:
    """Compare the declared topics with the cluster; writes nothing."""
    settings = Settings.load()
    show(compare_topics(choose_topics(names, pipelines, settings.modules, Mode(mode)), connect(settings)))


def choose_topics(
    names: tuple[str, ...], pipelines: tuple[str, ...], modules: tuple[str, ...], mode: Mode
) -> list[Topic]:
    """The declared topics with these names; without names, all of them."""
    declaring = choose_pipelines(pipelines, modules)
    declared = {topic.name: topic for p in declaring for topic in (p.source, *p.own_topics(mode))}
    for name in names:
        if name not in declared:
            raise EosError(f"No topic {name} is declared.", f"Choose among the declared ones: {', '.join(declared)}.")
    return [declared[name] for name in names] or list(declared.values())


def show(reports: list[TopicReport]) -> None:
    """Print one line per topic, and fail if one differs from its declaration."""
    table = Table("topic", "partitions", "state", "differences")
    for report in reports:
        state = f"[{COLOURS[report.outcome]}]{report.outcome}"
        table.add_row(report.topic.name, str(report.topic.partitions), state, "\n".join(map(str, report.differences)))
    console().print(table)
    different = [report.topic.name for report in reports if report.outcome == "different"]
    if different:
        raise EosError(
            f"These topics are not as declared, and were left unchanged: {', '.join(different)}.",
            "Change the declaration, or change the topic yourself with Kafka's own tools.",
        )
