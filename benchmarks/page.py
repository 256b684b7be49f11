"""Writes docs/performance.md and its picture from the results: `python -m benchmarks.page`.

The prose is in `performance.md` beside this module. No figure is: each comes from the results.
"""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from string import Template

from benchmarks.chart import write_chart
from benchmarks.contenders import ARROW as EOS
from benchmarks.contenders import DESCRIPTIONS, FLINK, SPARK, STREAMS
from benchmarks.machine import Machine
from benchmarks.peers import client_settings as client
from benchmarks.results import Results, WorkloadResult
from benchmarks.spread import Spread
from benchmarks.tables import (
    Table,
    increment_table,
    price_table,
    scaling_table,
    speeds,
    throughput_table,
    transactions_table,
    visibility_table,
)
from eos_assets.kafka.producer import SETTINGS as EOS_PRODUCER
from eos_assets.kafka.range_reader import SETTINGS as EOS_READER
from eos_assets.transform.source import READER_OPTIONS

ROOT = Path(__file__).parents[1]
TEMPLATE = Path(__file__).with_name("performance.md")
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "pictures" / "throughput.svg"
README = ROOT / "README.md"

LINE = 124
NOT_MEASURED = "Not measured."
#: The row of the README that the results give, and its columns.
README_ROW = re.compile(r"^\| short records per second, .*$", re.MULTILINE)
README_COLUMNS = (EOS, FLINK, STREAMS, SPARK)


def render(results: Results) -> str:
    """The page."""
    price = price_table(results.throughput)
    parts = {
        "date": results.date,
        "machine": machine_text(results.machine),
        "versions": versions_table(results.machine).markdown(),
        "throughput": "\n\n".join(workload_text(result) for result in results.throughput.values()) or NOT_MEASURED,
        "price": price.markdown() if price.rows else NOT_MEASURED,
        "scaling": scaling_table(results.scaling).markdown() if results.scaling else NOT_MEASURED,
        "increment": section(increment_table(results.increment) if results.increment else None),
        "visibility": section(visibility_table(results.visibility) if results.visibility else None),
        "visibility_records": f"{results.visibility.records:,}" if results.visibility else "",
        "transactions": section(transactions_table(results.transactions) if results.transactions else None),
        "transactions_records": f"{results.transactions.records:,}" if results.transactions else "",
        "settings": settings_table().markdown(),
        "shares": shares_text(),
        "left_out": left_out_text(results.left_out),
    }
    return Template(TEMPLATE.read_text()).substitute(parts)


def section(table: Table | None) -> str:
    """A table under its title, which holds the unit."""
    return f"{table.title}:\n\n{table.markdown()}" if table else NOT_MEASURED


def workload_text(result: WorkloadResult) -> str:
    sentence = (
        f"{result.records:,} records in three partitions, {result.rounds} rounds after {result.warm_ups} to warm up. "
        "Medians, with the quartiles."
    )
    return f"### {result.title}\n\n{sentence}\n\n{throughput_table(result).markdown()}"


def machine_text(machine: Machine) -> str:
    memory = f"{machine.memory_bytes / 2**30:.0f} GiB"
    return f"{machine.processor}, {machine.cores} cores, {memory} of memory, {machine.system}"


def versions_table(machine: Machine) -> Table:
    return Table("Versions", ["what", "version"], [list(item) for item in machine.versions.items()])


def settings_table() -> Table:
    """What is set other than by default. Of this project, which runs with its defaults, the same settings."""
    settings: dict[str, Mapping[str, object]] = {
        "Producer of eos": chosen(EOS_PRODUCER, "compression.type", "linger.ms", "batch.num.messages"),
        "Reader of the Arrow kind": chosen(EOS_READER, *client.PYTHON_FETCHES),
        "Reader of the DataFrame kind and of Spark's sink": READER_OPTIONS,
        "Producer of Spark's sink, Flink and Kafka Streams": client.JAVA_PRODUCER,
        "Consumer of Flink and Kafka Streams": client.JAVA_CONSUMER,
        "Producer of the loop and of Quix": client.PYTHON_PRODUCER,
        "Consumer of the loop and of Quix": client.PYTHON_CONSUMER,
        "Flink, which reuses objects": client.FLINK,
        "Kafka Streams": client.STREAMS,
        "Transactions of the loop and of Quix": client.PYTHON,
    }
    rows = [[what, ", ".join(f"`{name}={value}`" for name, value in each.items())] for what, each in settings.items()]
    return Table("Settings", ["what", "settings"], rows)


def chosen(settings: Mapping[str, object], *names: str) -> dict[str, object]:
    return {name: settings[name] for name in names}


def shares_text() -> str:
    slow = [f"{each.title} ({each.share:.0%})" for each in DESCRIPTIONS.values() if each.share < 1]
    text = f"Slow contenders get fewer of the records, so that a round does not take minutes: {'; '.join(slow)}. "
    text += "The start of their runs weighs more for that."
    return textwrap.fill(text, LINE, initial_indent="- ", subsequent_indent="  ")


def left_out_text(left_out: dict[str, str]) -> str:
    lines = [f"- {DESCRIPTIONS[name].title}: {' '.join(reason.split())}" for name, reason in left_out.items()]
    return "\n".join(["", "These contenders could not take part on that machine:", "", *lines, ""]) if lines else ""


def readme_row(results: Results) -> str | None:
    """The row of the README's comparison; None where a column was not measured."""
    integers = results.throughput.get("integers")
    if integers is None or not set(README_COLUMNS) <= set(integers.series):
        return None
    figures = [f"{Spread.of(speeds(integers.series[name])).median:,.0f}" for name in README_COLUMNS]
    return f"| short records per second, on {results.machine.cores} cores (Arrow batches) | {' | '.join(figures)} |"


def write_page(results: Results) -> None:
    PAGE.write_text(render(results))
    if results.throughput:
        write_chart(results.throughput, PICTURE)
    row = readme_row(results)
    if row:
        README.write_text(README_ROW.sub(row, README.read_text()))


if __name__ == "__main__":
    write_page(Results.load())
