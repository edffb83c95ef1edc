"""The outcome as one HTML page that needs nothing else: the squares as SVG, the table, the words."""

from html import escape
from pathlib import Path

from dupeproof_lab.demo.colours import LEGEND, ONCE, colour, columns, verdict
from dupeproof_lab.demo.queue import order_name
from dupeproof_lab.demo.report import COLUMNS, Report, closing, headline, rows
from dupeproof_lab.demo.run import Outcome
from dupeproof_lab.pages import html_table, write_page

_STYLE = """\
  .panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); gap: 2rem; margin: 2rem 0 1rem; }
  .panel h2 { display: flex; justify-content: space-between; align-items: baseline; font-size: 1.15rem; margin: 0; }
  .panel h2 span { font-size: .95rem; }
  .panel p { margin: 0 0 .6rem; font-size: .9rem; }
  .legend span { margin-right: 1.5rem; }
  .legend i { display: inline-block; width: .9em; height: .9em; margin-right: .4em; vertical-align: -.1em; }
"""
_BODY = """\
<h1>How often was each order charged?</h1>
<div class="faint">{headline}</div>
<div class="panels">{panels}</div>
<div class="legend">{legend}<span class="faint">one square is one order; point at one that went wrong</span></div>
{table}
<p>{closing}</p>"""


def write(report: Report, path: Path) -> None:
    body = _BODY.format(
        headline=escape(headline(report)),
        panels="".join(_panel(outcome) for outcome in report.outcomes),
        legend="".join(f'<span><i style="background:{tone}"></i>{words}</span>' for tone, words in LEGEND),
        table=html_table(COLUMNS, rows(report), left=(0, 1)),
        closing=escape(closing(report)),
    )
    write_page(path, title="dupeproof demo", body=body, style=_STYLE, made=f", seed {report.seed}")


def _panel(outcome: Outcome) -> str:
    words, tone = verdict(outcome)
    across = columns(outcome.orders)
    down = -(-outcome.orders // across)
    squares = "".join(
        _square(number, charges, across)
        for number, charges in enumerate(outcome.audit.charges)
        if charges != 1  # the others are one pattern behind, which keeps the page small
    )
    rest = across * down - outcome.orders
    name = f"once-{escape(outcome.name)}"
    return (
        f'<div class="panel"><h2>{escape(outcome.title)}<span style="color:{tone}">{escape(words)}</span></h2>'
        f'<p class="faint">{escape(outcome.idea)}</p>'
        f'<svg viewBox="0 0 {across} {down}" role="img" aria-label="{escape(outcome.title)}: {escape(words)}">'
        f'<pattern id="{name}" width="1" height="1" patternUnits="userSpaceOnUse">'
        f'<rect width=".88" height=".88" fill="{ONCE}"/></pattern>'
        f'<path d="M0 0H{across}V{down - 1}H{across - rest}V{down}H0Z" fill="url(#{name})"/>{squares}</svg></div>'
    )


def _square(number: int, charges: int, across: int) -> str:
    words = (
        f"{order_name(number)}: charged {charges} times"
        if charges
        else f"{order_name(number)}: never charged"
    )
    return (
        f'<rect x="{number % across}" y="{number // across}" width=".88" height=".88" fill="{colour(charges)}">'
        f"<title>{words}</title></rect>"
    )
