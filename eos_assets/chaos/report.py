"""The report of a soak: one HTML file that needs no other file."""

from html import escape

from eos_assets.chaos.result import SoakResult
from eos_assets.chaos.samples import MemoryUse
from eos_assets.chaos.timeline import draw_svg
from eos_assets.declare.check import Finding
from eos_assets.experiment.report import STYLE, html_table

MEGABYTE = 1 << 20
HOLDS = "Every invariant holds, and the history has no anomaly."
READING = (
    "A bar of the first panel is a fault, from its injection until it was healed; a hollow one had no effect. "
    "Commits are those that a worker learned about. The lag is what was acknowledged to the loader and is "
    "not in the ledger yet."
)


def html(result: SoakResult) -> str:
    """The whole report as one page."""
    problems = "".join(f'<p class="bad">✗ {escape(problem)}</p>' for problem in result.problems)
    conclusion = problems or f'<p class="good">✓ {HOLDS}</p>'
    struck = sum(result.struck.values())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>A soak of {escape(result.options.pipeline)}</title><style>{STYLE}</style></head><body>"
        f"<h1>A soak of {escape(result.options.pipeline)}: {struck} faults in {result.options.seconds / 60:g} min</h1>"
        f'{conclusion}<p class="quiet">{escape(parameters(result))}</p>{draw_svg(result)}'
        f'<p class="quiet">{escape(READING)}</p>'
        f"<h2>Counts</h2>{html_table(('count', 'value'), counts(result))}"
        f"<h2>Faults</h2>{html_table(('number', 'fault', 'began', 'ended', 'struck'), faults(result))}"
        f"<h2>Invariants</h2>{html_table(('invariant', 'result', 'found'), map(finding, result.findings))}"
        f"<h2>Longest silence</h2>{html_table(('command', 'seconds', 'from'), silences(result))}"
        f"<h2>Memory</h2>{html_table(('processes', 'middle', 'end', 'highest', 'flat'), map(memory, result.memory))}"
        "</body></html>\n"
    )


def parameters(result: SoakResult) -> str:
    chosen = result.options
    return (
        f"Seed {chosen.seed}; {chosen.brokers} broker(s); {chosen.rate:g} records/s; a fault about every "
        f"{chosen.every:g} s among {', '.join(chosen.kinds)}; {result.seconds:.0f} s in all."
    )


def counts(result: SoakResult) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), f"{count:,}") for name, count in result.counts.items()]


def faults(result: SoakResult) -> list[tuple[str, ...]]:
    return [
        (
            f"{fault.planned.number}",
            fault.planned.kind,
            f"{fault.began:.1f}",
            f"{fault.ended:.1f}",
            fault.struck or "nothing",
        )
        for fault in result.faults
    ]


def finding(each: Finding) -> tuple[str, str, str]:
    found = "holds" if each.holds else "broken" if each.severity == "error" else "warning"
    return each.name, found if each.evaluated else "not evaluated", "; ".join([each.detail, *each.examples])


def silences(result: SoakResult) -> list[tuple[str, str, str]]:
    return [(each.command, f"{each.seconds:.1f}", f"{each.began:.1f}") for each in result.silences]


def memory(use: MemoryUse) -> tuple[str, ...]:
    sizes = (f"{size / MEGABYTE:,.0f} MiB" for size in (use.middle, use.end, use.highest))
    return use.role, *sizes, {None: "too short to decide", True: "yes", False: "no"}[use.flat]
