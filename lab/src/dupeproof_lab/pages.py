"""HTML pages that need nothing else: one frame and one form of table for all commands."""

import platform
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from dupeproof import __version__

INK, FAINT = "#1f2430", "#69707d"
"""The tones of text, in pages and pictures."""

_FRAME = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; color: {ink}; background: #fff; max-width: 72rem; margin: 2.5rem auto;
         padding: 0 1.5rem; }}
  h1 {{ font-size: 1.7rem; margin: 0; }}
  .faint {{ color: {faint}; }}
  svg {{ width: 100%; height: auto; display: block; }}
  table {{ border-collapse: collapse; margin: 2rem 0; width: 100%; font-variant-numeric: tabular-nums; }}
  th, td {{ padding: .45rem .8rem; border-bottom: 1px solid #dfe3e8; text-align: left; }}
  th {{ color: {faint}; font-weight: 500; }}
  .figure {{ text-align: right; }}
{style}</style>
{body}
<p class="faint">dupeproof {version} on Python {python}{made}</p>
</html>
"""


def write_page(path: Path, *, title: str, body: str, style: str = "", made: str = "") -> None:
    """`body` is HTML; `made` is what else to say about how it came to be."""
    text = _FRAME.format(
        title=escape(title),
        ink=INK,
        faint=FAINT,
        style=style,
        body=body,
        version=__version__,
        python=platform.python_version(),
        made=escape(made),
    )
    path.write_text(text, encoding="utf-8")


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: Iterable[int] = (0,)) -> str:
    """`left` are the columns of words; the others are figures, and stand to the right."""
    words = set(left)

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{'' if place in words else ' class=figure'}>{escape(cell)}</{tag}>"
            for place, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><tr>{line('th', columns)}</tr>{body}</table>"
