"""`eos dead-letters`: list, show, replay and discard what a pipeline has rejected."""

import getpass
import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.options import Command, json_option, pipeline_options
from eos_assets.cli.preview import text
from eos_assets.cli.target import prepare
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.registry import find_pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.letters.discard import discard_letters
from eos_assets.letters.letter import Letter, LetterFilter, count_by_reason, parse_letter, read_letters
from eos_assets.letters.marking import LetterReport
from eos_assets.letters.original import Original, read_original
from eos_assets.log.ledger import DISCARDED, REJECTED, REPLAYED, utc_time
from eos_assets.log.letter_marks import Status
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
#: How many letters the table of `list` shows; --json prints all.
SHOWN = 20


@click.group("dead-letters")
def dead_letters_command() -> None:
    """List, show, replay and discard the records that a pipeline has rejected.

    A letter is named by the partition and the offset of its source record, as in 0/17.
    """


def filter_options(command: Command) -> Command:
    """The options that choose letters."""
    options: list[Callable[[Command], Command]] = [
        click.option("--reason", "reasons", multiple=True, metavar="CODE", help="Only this reason code; repeatable."),
        click.option(
            "--partition",
            "partitions",
            type=click.IntRange(0),
            multiple=True,
            help="Only this source partition; repeatable.",
        ),
        click.option("--key", "keys", multiple=True, help="Only records with this key; repeatable."),
        click.option("--letter", "letters", multiple=True, metavar="P/OFFSET", help="Only this letter; repeatable."),
        click.option(
            "--since",
            metavar="TIME",
            help="Only letters written since: 2026-11-19T10:00, or 2h for the last two hours.",
        ),
        click.option("--until", metavar="TIME", help="Only letters written before."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def chosen_letters(options: dict[str, Any], statuses: frozenset[Status] = frozenset({Status.OPEN})) -> LetterFilter:
    """The filter that the options describe."""
    since, until = (None if options[name] is None else parse_time(options[name]) for name in ("since", "until"))
    if since is not None and until is not None and since >= until:
        raise EosError(f"--since {options['since']} is not before --until {options['until']}.", "Exchange the two.")
    return LetterFilter(
        codes=frozenset(options["reasons"]),
        partitions=frozenset(options["partitions"]),
        origins=frozenset(map(parse_letter, options["letters"])),
        keys=frozenset(key.encode() for key in options["keys"]),
        since_ms=since,
        until_ms=until,
        statuses=statuses,
    )


def parse_time(value: str) -> int:
    """A moment in milliseconds: ISO 8601, in UTC unless it names an offset, or the time until now."""
    if ago := re.fullmatch(r"(\d+)([smhd])", value):
        return int((time.time() - int(ago[1]) * UNITS[ago[2]]) * 1000)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise EosError(
            f"The time {value!r} is not valid.", "Use ISO 8601, as in 2026-11-19T10:00, or 30m, 2h or 7d until now."
        ) from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def require_choice(chosen: LetterFilter, every: bool) -> None:
    """Refuse to mark all letters by accident."""
    if not chosen.limits and not every:
        raise EosError("No letters were chosen.", "Choose some with --reason, --letter and so on, or all with --all.")


def current_user() -> str:
    """The user of this process, who is named in the marks."""
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:  # a user id without a name, as in some containers
        raise EosError("The user of this process has no name.", "Name who it is with --by.") from error


def find(name: str) -> tuple[Pipeline, Connection]:
    settings = Settings.load()
    return find_pipeline(name, settings.modules), connect(settings)


@dead_letters_command.command("list")
@pipeline_options
@filter_options
@click.option(
    "--status",
    type=click.Choice([*map(str, Status), "all"]),
    default=str(Status.OPEN),
    show_default=True,
    help="What became of them.",
)
@json_option
def list_letters(pipeline: str, status: str, as_json: bool, **options: Any) -> None:
    """Count dead letters by reason, and show the newest."""
    statuses = frozenset(Status) if status == "all" else frozenset({Status(status)})
    chosen = chosen_letters(options, statuses)
    declared, connection = find(pipeline)
    letters = read_letters(declared, connection, chosen)
    groups = count_by_reason(letters)
    if as_json:
        counts = [{**asdict(group), "partitions": sorted(group.partitions)} for group in groups]
        facts = {"pipeline": declared.name, "status": status, "count": len(letters), "reasons": counts}
        click.echo(json.dumps({**facts, "letters": [as_facts(letter) for letter in letters]}, indent=2))
        return
    if not letters:
        console().print(
            f"{declared.name}: no dead letters that are {status}"
            if status != "all"
            else f"{declared.name}: no dead letters",
            markup=False,
        )
        return
    table = Table(
        "reason code", "letters", "partitions", "first", "last", "newest reason", title=f"{declared.name}, {status}"
    )
    for group in groups:
        times = utc_time(group.first_ms), utc_time(group.last_ms)
        partitions = ", ".join(map(str, sorted(group.partitions)))
        table.add_row(escape(group.code), f"{group.letters:,}", partitions, *times, escape(text(group.example)))
    console().print(table)
    show_newest(letters)


def show_newest(letters: list[Letter]) -> None:
    table = Table(
        "letter", "status", "key", "written at", "reason code", "by", title=f"the newest {min(SHOWN, len(letters))}"
    )
    for letter in letters[: -SHOWN - 1 : -1]:
        table.add_row(
            name_of(letter),
            letter.status,
            escape(text(letter.key)),
            utc_time(letter.written_ms),
            escape(letter.code),
            escape(letter.mark.by) if letter.mark else "",
        )
    console().print(table)


def name_of(letter: Letter) -> str:
    return f"{letter.origin[0]}/{letter.origin[1]}"


def as_facts(letter: Letter) -> dict[str, object]:
    """A letter for JSON. Keys that are not UTF-8 have replacement characters."""
    mark = None if letter.mark is None else {**asdict(letter.mark), "status": str(letter.mark.status)}
    return {
        "letter": name_of(letter),
        "partition": letter.origin[0],
        "source_offset": letter.origin[1],
        "dead_letter_offset": letter.offset,
        "status": str(letter.status),
        "code": letter.code,
        "reason": letter.current_reason,
        "key": decoded(letter.key),
        "written_ms": letter.written_ms,
        "mark": mark,
    }


def decoded(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")


@dead_letters_command.command("show")
@pipeline_options
@click.argument("letter", metavar="P/OFFSET")
@json_option
def show_letter(pipeline: str, letter: str, as_json: bool) -> None:
    """Show one dead letter: record, reasons and mark."""
    origin = parse_letter(letter)
    declared, connection = find(pipeline)
    every = LetterFilter(origins=frozenset({origin}), statuses=frozenset(Status))
    found = read_letters(declared, connection, every)
    if not found:
        raise EosError(
            f"{declared.name} has no dead letter of {declared.source.name}/{origin[0]} offset {origin[1]}.",
            f"`eos dead-letters list {declared.name} --status all` lists them; retention may have removed it.",
        )
    original = read_original(declared, connection, found[0])
    facts = {**as_facts(found[0]), **as_record(original), "first_reason": found[0].reason}
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    table = Table("field", "value", title=f"dead letter {letter} of {declared.name}", show_header=False)
    for name, value in facts.items():
        table.add_row(name, escape(str(value)))
    console().print(table)
    if found[0].status is Status.OPEN:
        command = f"eos dead-letters replay {declared.name} --letter {letter}"
        console().print(f"Replay it with `{command}`.", markup=False, highlight=False)


def as_record(original: Original) -> dict[str, object]:
    return {
        "value": decoded(original.value),
        "timestamp": original.timestamp,
        "headers": [[name, decoded(value)] for name, value in original.headers],
    }


@dead_letters_command.command("replay")
@pipeline_options
@filter_options
@click.option("--all", "every", is_flag=True, help="All open letters.")
@click.option("--by", help="Who replays them; default: the user of this process.")
@json_option
def replay(pipeline: str, every: bool, by: str | None, as_json: bool, **options: Any) -> None:
    """Send dead letters through today's transform again.

    It gets the original records. What it accepts is delivered, exactly once, in the transaction that marks the letter
    as replayed. A letter that fails again stays, with its new reason. Status 0 if none failed again or was refused.
    """
    chosen = chosen_letters(options)
    require_choice(chosen, every)
    from eos_assets.context import PipelineContext
    from eos_assets.letters.replay import ReplayOptions, replay_letters
    from eos_assets.platform.spark_session import start_session

    settings, declared, connection = prepare(pipeline)
    with Console(stderr=True).status("Replaying …"):
        context = PipelineContext(declared, start_session(settings), connection)
        replay_options = ReplayOptions(by or current_user(), accepted_spark=settings.accept_spark)
        report = replay_letters(context, chosen, replay_options)
    print_report(report, as_json=as_json)


@dead_letters_command.command("discard")
@pipeline_options
@filter_options
@click.option("--all", "every", is_flag=True, help="All open letters.")
@click.option("--by", help="Who discards them; default: the user of this process.")
@click.option("--why", required=True, help="Why nothing is to be done about them.")
@json_option
def discard(pipeline: str, every: bool, by: str | None, why: str, as_json: bool, **options: Any) -> None:
    """Mark dead letters as discarded, with who and why.

    Nothing is deleted.
    """
    chosen = chosen_letters(options)
    require_choice(chosen, every)
    declared, connection = find(pipeline)
    report = discard_letters(declared, connection, chosen, by=by or current_user(), why=why)
    print_report(report, as_json=as_json)


def print_report(report: LetterReport, *, as_json: bool) -> None:
    """Print what was done; status 1 if something is left to do."""
    if as_json:
        click.echo(json.dumps(report_facts(report), indent=2))
    else:
        console().print(str(report), markup=False, highlight=False)
        for origin, reason in [*report.marked(REJECTED).items(), *report.refused.items()]:
            console().print(f"  {origin[0]}/{origin[1]}: {reason}", markup=False, highlight=False)
    if not report.complete:
        raise click.exceptions.Exit(1)


def report_facts(report: LetterReport) -> dict[str, object]:
    def named(letters: dict[tuple[int, int], str]) -> dict[str, str]:
        return {f"{partition}/{offset}": reason for (partition, offset), reason in letters.items()}

    return {
        "run": report.run,
        "by": report.by,
        "replayed": list(named(report.marked(REPLAYED))),
        "rejected": named(report.marked(REJECTED)),
        "discarded": list(named(report.marked(DISCARDED))),
        "refused": named(report.refused),
        "marked_by_others": [f"{partition}/{offset}" for partition, offset in report.marked_by_others],
        "records_out": report.records_out,
        "skipped": report.skipped,
        "transactions": len(report.entries),
        "failures": report.failures,
        "seconds": report.seconds,
    }
