"""The figures as one HTML page that needs nothing else: the pictures as SVG, then all tables."""

from html import escape
from pathlib import Path

from dupeproof_lab.bench.report import (
    GOAL_COLUMNS,
    GROWTH_COLUMNS,
    PUBLISHED_COLUMNS,
    ROW_COLUMNS,
    benchmarks,
    goals,
    growths,
    headline,
    published,
)
from dupeproof_lab.bench.run import Report
from dupeproof_lab.pages import html_table, write_page


def write(report: Report, pictures: list[str], path: Path) -> None:
    words = (0, 1, 2, len(ROW_COLUMNS) - 1)
    parts = [
        "<h1>What deduplication costs</h1>",
        f'<p class="faint">{escape(headline(report))}</p>',
        *pictures,
        "<h2>The published table</h2>",
        html_table(PUBLISHED_COLUMNS, published(report), left=(0, len(PUBLISHED_COLUMNS) - 1)),
        "<h2>Goals</h2>",
        html_table(GOAL_COLUMNS, goals(report), left=(0, len(GOAL_COLUMNS) - 1)),
    ]
    if grown := growths(report):
        parts += [
            "<h2>As the store grows</h2>",
            html_table(GROWTH_COLUMNS, grown, left=(0, len(GROWTH_COLUMNS) - 1)),
        ]
    for title, rows in benchmarks(report).items():
        parts += [f"<h2>{escape(title)}</h2>", html_table(ROW_COLUMNS, rows, left=words)]
    write_page(path, title="dupeproof bench", body="\n".join(parts))
