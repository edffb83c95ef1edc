"""The two tables that matter as Markdown, to be put into a page as they are."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from dupeproof_lab.bench.report import GOAL_COLUMNS, NONE, PUBLISHED_COLUMNS, goals, headline, published
from dupeproof_lab.bench.run import Report


def write(report: Report, path: Path) -> None:
    measured = [row for row in goals(report) if row[2] != NONE]
    parts = (
        "<!-- Made by: dupeproof bench -->",
        _table(PUBLISHED_COLUMNS, published(report)),
        "Ids a second thrice, then the memory for a million ids: as published, by the same method here, by dupeproof here.",
        _table(GOAL_COLUMNS, measured),
        f"Measured side by side in one run: {headline(report)}.",
    )
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows))
