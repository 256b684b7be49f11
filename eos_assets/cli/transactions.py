"""`eos transactions`: list the open transactions that hold back topics, and abort them."""

import json
from collections.abc import Callable

import click
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.options import EosCommand, json_option, mode_option, module_option
from eos_assets.deadlines import poll_until
from eos_assets.declare.modes import Mode
from eos_assets.declare.registry import choose_pipelines
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.open_transactions import OpenTransaction, abort_transactions, find_open_transactions
from eos_assets.kafka.transaction_client import require_client
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings

COLUMNS = ("topic", "partition", "offset", "producer", "epoch", "transactional id", "state", "age")
#: How long the markers of an aborted transaction may take to reach the partitions.
ABORT_SECONDS = 30.0
POLL_SECONDS = 0.1


@click.group("transactions")
def transactions_command() -> None:
    """List the open transactions that hold back topics, and abort them.

    A reader of committed records does not pass the first open transaction of a partition. Its coordinator aborts it
    when it outlives its timeout; an orphan, which no coordinator names, stays open until it is aborted here.
    """


def topic_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options by which both commands choose topics."""
    topics = click.option("--topic", "topics", multiple=True, help="Only this topic, declared or not; repeatable.")
    pipelines = click.option("--pipeline", "pipelines", multiple=True, help="Only those of this pipeline; repeatable.")
    return topics(pipelines(module_option(mode_option(command))))


@transactions_command.command("list", cls=EosCommand)
@topic_options
@json_option
def list_command(topics: tuple[str, ...], pipelines: tuple[str, ...], mode: str, as_json: bool) -> None:
    """List the open transactions in the topics of all pipelines that are found."""
    connection, names = target(topics, pipelines, mode)
    found = find_open_transactions(connection, names)
    if as_json:
        click.echo(json.dumps([transaction.plain() for transaction in found], indent=2))
    else:
        show(found, names)


@transactions_command.command("abort", cls=EosCommand)
@click.argument("producer_id", type=click.IntRange(0))
@topic_options
@click.option("--yes", is_flag=True, help="Do not ask, for scripts.")
def abort_command(producer_id: int, topics: tuple[str, ...], pipelines: tuple[str, ...], mode: str, yes: bool) -> None:
    """Abort the open transaction of the producer PRODUCER_ID, as `eos transactions list` names it.

    Its coordinator aborts it in all its partitions, and fences the producer. An orphan is aborted in each partition
    of these topics.
    """
    connection, names = target(topics, pipelines, mode)
    chosen = find_of(producer_id, connection, names)
    show(chosen, names)
    if not yes:
        click.confirm(f"Abort the transaction of producer {producer_id}? Its records will never be visible", abort=True)
        chosen = find_of(producer_id, connection, names)
    abort_transactions(connection, chosen)
    aborted = {(each.topic, each.partition, each.offset) for each in chosen}

    def ended() -> bool:
        left = find_open_transactions(connection, sorted({each.topic for each in chosen}))
        return not aborted & {(each.topic, each.partition, each.offset) for each in left}

    if not poll_until(ended, ABORT_SECONDS, POLL_SECONDS):
        raise EosError(
            f"The transaction of producer {producer_id} is still open after {ABORT_SECONDS:.0f} s.",
            "Check the brokers with `eos doctor`, then call it again.",
        )
    click.echo(f"The transaction of producer {producer_id} is aborted.")


def target(topics: tuple[str, ...], pipelines: tuple[str, ...], mode: str) -> tuple[Connection, list[str]]:
    """The cluster, and the topics to look at: those that are named, else those of the pipelines that exist."""
    require_client()
    settings = Settings.load()
    connection = connect(settings)
    if topics:
        return connection, list(topics)
    declared = {
        topic.name: None
        for pipeline in choose_pipelines(pipelines, settings.modules)
        for topic in (pipeline.source, *pipeline.own_topics(Mode(mode)))
    }
    existing = connection.metadata().topics
    return connection, [name for name in declared if name in existing]


def find_of(producer_id: int, connection: Connection, topics: list[str]) -> list[OpenTransaction]:
    found = find_open_transactions(connection, topics)
    chosen = [transaction for transaction in found if transaction.producer_id == producer_id]
    if not chosen:
        raise EosError(
            f"Producer {producer_id} has no open transaction in {', '.join(topics) or 'these topics'}.",
            "Choose a producer that `eos transactions list` names.",
        )
    return chosen


def show(transactions: list[OpenTransaction], topics: list[str]) -> None:
    """Print one line per open transaction and partition."""
    if not transactions:
        click.echo(f"No transaction is open in {', '.join(topics) or 'these topics: none of them exists'}.")
        return
    table = Table(*COLUMNS, title="open transactions")
    for each in transactions:
        state = "orphan" if each.orphan else str(each.state)
        age = f"{'written to ' if each.orphan else ''}{each.age_seconds:.0f} s{' ago' if each.orphan else ''}"
        cells = (each.partition, each.offset, each.producer_id, each.epoch, each.transactional_id or "unknown")
        table.add_row(each.topic, *map(str, cells), state, age)
    console().print(table)
