"""`eos files`: generate files of transactions, and announce files to the pipeline that reads them."""

from pathlib import Path

import click

from eos_assets.errors import EosError
from eos_assets.files.announce import announce, announcement
from eos_assets.files.formats import FORMATS
from eos_assets.files.generate import make_transactions, write_file
from eos_assets.kafka.admin import create_topics
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings


@click.group("files")
def files_command() -> None:
    """Generate files of bank transactions, and announce files to the pipeline file_transactions.

    \b
    An example:
      export EOS_FILES_ROOT=$PWD/incoming
      eos files generate --count 1000 --format csv.gz
      eos files announce incoming/*
      eos run file_transactions
    """


@files_command.command("generate")
@click.option("--count", type=click.IntRange(0), default=1000, show_default=True, help="Transactions in each file.")
@click.option(
    "--format", "formats", type=click.Choice([*FORMATS, "all"]), multiple=True, default=["csv"], show_default=True,
    help="Repeatable; `all` writes one file of each.",
)  # fmt: skip
@click.option("--files", type=click.IntRange(1), default=1, show_default=True, help="Files of each format.")
@click.option("--accounts", type=click.IntRange(1), default=1000, show_default=True, help="Number of accounts.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same files.")
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), help="The folder of the files. Default: EOS_FILES_ROOT."
)
def generate_command(
    count: int, formats: tuple[str, ...], files: int, accounts: int, seed: int, folder: Path | None
) -> None:
    """Write files of generated bank transactions, each with a unique id."""
    into = folder or Settings.load().files.root
    if into is None:
        raise EosError("No folder is given.", "Use --dir FOLDER, or set EOS_FILES_ROOT.")
    into.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(name for name in choose_formats(formats) for _ in range(files)):
        path = into / f"transactions-{seed + number}.{name}"
        write_file(path, make_transactions(count, seed=seed + number, accounts=accounts))
        click.echo(f"{path}  {count} transactions, {path.stat().st_size:,} bytes")


def choose_formats(formats: tuple[str, ...]) -> list[str]:
    return list(FORMATS) if "all" in formats else list(dict.fromkeys(formats))


@files_command.command("announce")
@click.argument("places", nargs=-1, required=True)
@click.option("--format", "declared", type=click.Choice(FORMATS), help="Their format, if the name does not show it.")
@click.option("--plain", is_flag=True, help="Write the bare URL, without format and checksum.")
@click.option("--topic", default="files-with-transactions", show_default=True, help="The topic to write to.")
def announce_command(places: tuple[str, ...], declared: str | None, plain: bool, topic: str) -> None:
    """Write one record for each of PLACES, files or URLs, to the topic that file_transactions reads.

    A file is announced by its file: URL with its sha256, so that a run detects a file that has changed; a URL is
    announced as it is.
    """
    from eos_assets.pipelines.file_transactions import file_transactions

    settings = Settings.load()
    records = [announcement(place, None if plain else declared, checksum=not plain) for place in places]
    connection = connect(settings)
    if topic == file_transactions.source.name:
        create_topics([file_transactions.source], connection)
    count = announce(connection, topic, records)
    click.echo(f"Announced {count} file(s) on {topic}.")
    root = settings.files.root
    for url, _ in records:
        if url.startswith("file:") and (root is None or not url.startswith(f"{root.as_uri()}/")):
            click.echo(f"note: {url} is not below EOS_FILES_ROOT: a run with these settings refuses it.", err=True)
