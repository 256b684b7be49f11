"""The report of the experiment: one HTML file that needs no other file, or markdown with the charts inside."""

import base64
from collections.abc import Iterable, Sequence
from html import escape

from eos_assets.experiment.charts import draw_svg
from eos_assets.experiment.classification import find_anomalies
from eos_assets.experiment.matrix import Experiment
from eos_assets.experiment.table import COLUMNS, SUMMARY_COLUMNS, headline, markdown, rows, summary

STYLE = """
:root{color-scheme:light dark;--ink:#1d2430;--quiet:#5a6474;--line:#d9dee6;--ground:#f5f7fa;--good:#00724f;
--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e8ecf2;--quiet:#a3adbb;--line:#333d4a;--ground:#0e1217;
--good:#3ddbaa;--bad:#ff8a80}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground);max-width:1180px;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.7rem;margin:0 0 .3rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}p{margin:.4rem 0}
svg{width:100%;height:auto;display:block;margin:1.2rem 0;border-radius:10px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:.28rem .45rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{color:var(--quiet);font-weight:600;text-align:right}td:first-child,th:first-child{text-align:left}
.good{color:var(--good)}.bad{color:var(--bad)}.quiet{color:var(--quiet)}
"""
#: The columns in which a value other than 0 means harm to the data.
HARM = {"doubled", "lost", "out of order"}
HOLDS = "Exactly once lost and doubled nothing, and the baseline deliveries did where failures struck them."
READING = (
    "Above the line records are doubled, below it they are lost; a dot on the line means that each was delivered "
    "once. A failure before the commit, or a killed worker, strikes between the two steps of a baseline delivery: "
    "outputs, then offsets (at least once), or offsets, then outputs (at most once). After the second step it does no "
    "harm. Aborted records are visible to a read_uncommitted consumer only."
)


def html(experiment: Experiment) -> str:
    """The whole report as one page."""
    anomalies = find_anomalies(experiment.results)
    conclusion = "".join(f'<p class="bad">✗ {escape(anomaly)}</p>' for anomaly in anomalies)
    conclusion = conclusion or f'<p class="good">✓ {HOLDS}</p>'
    matrix = experiment.matrix
    parameters = (
        f"Experiment {experiment.id}: {len(experiment.results)} cells of {matrix.records:,} records in "
        f"{matrix.partitions} partitions, seed {matrix.seed}, {experiment.seconds:.0f} s."
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Three deliveries under the same failures</title><style>{STYLE}</style></head><body>"
        f"<h1>Three deliveries under the same failures</h1><p>{escape(headline(experiment))}</p>{conclusion}"
        f'<p class="quiet">{escape(parameters)}</p>{draw_svg(experiment)}<p class="quiet">{escape(READING)}</p>'
        f"<h2>Each delivery, over all its cells</h2>{html_table(SUMMARY_COLUMNS, summary(experiment))}"
        f"<h2>Each cell</h2>{html_table(COLUMNS, rows(experiment))}</body></html>\n"
    )


def html_table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(html_cell, columns, line))}</tr>" for line in lines)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def html_cell(column: str, value: str) -> str:
    """A cell of a table. Harm is emphasized, zeros are in the background."""
    harm = "bad" if column in HARM and value != "0" else "quiet" if value == "0" else ""
    return f'<td class="{harm}">{escape(value)}</td>'


def markdown_table(experiment: Experiment) -> str:
    """Both tables, for Dagster's metadata."""
    by_mode = markdown(SUMMARY_COLUMNS, summary(experiment))
    return f"{headline(experiment)}\n\n{by_mode}\n\n{markdown(COLUMNS, rows(experiment))}"


def markdown_charts(experiment: Experiment) -> str:
    """The charts as an image inside the text: no file, no address."""
    image = base64.b64encode(draw_svg(experiment).encode()).decode()
    return f"![three deliveries under the same failures](data:image/svg+xml;base64,{image})"
