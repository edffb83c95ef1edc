"""The outcome as a PNG: every order is a square, coloured by what became of it."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from dupeproof_lab.demo.colours import LEGEND, colour, columns, verdict
from dupeproof_lab.demo.report import Report, headline
from dupeproof_lab.demo.run import Outcome
from dupeproof_lab.pages import FAINT, INK

_WIDTH, _MARGIN, _GAP, _HEAD, _FOOT = 12.0, 0.4, 0.35, 1.62, 0.62
"""Inches."""
_SQUARE = 0.88
"""The share of its cell a square fills."""


def draw(report: Report, path: Path) -> None:
    count = len(report.outcomes)
    across = columns(report.orders)
    down = -(-report.orders // across)
    wide = (_WIDTH - 2 * _MARGIN - (count - 1) * _GAP) / count
    high = wide * down / across
    height = _HEAD + high + _FOOT
    figure = Figure(figsize=(_WIDTH, height), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)

    def write(x: float, from_top: float, text: str, **style: Any) -> None:
        figure.text(x / _WIDTH, 1 - from_top / height, text, **style)

    write(_MARGIN, 0.47, "How often was each order charged?", fontsize=17, fontweight="bold", color=INK)
    write(_MARGIN, 0.78, headline(report), fontsize=11, color=FAINT)
    for place, outcome in enumerate(report.outcomes):
        left = _MARGIN + place * (wide + _GAP)
        words, tone = verdict(outcome)
        write(left, 1.24, outcome.title, fontsize=14, fontweight="bold", color=INK)
        write(left + wide, 1.24, words, fontsize=12, fontweight="bold", color=tone, ha="right")
        write(left, 1.49, outcome.idea, fontsize=10, color=FAINT)
        axes = figure.add_axes((left / _WIDTH, _FOOT / height, wide / _WIDTH, high / height))
        _squares(axes, outcome, across, down)
    handles = [Patch(color=tone, label=words) for tone, words in LEGEND]
    corner = (_MARGIN / _WIDTH, 0.17 / height)
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=corner,
        ncols=3,
        frameon=False,
        fontsize=11,
        borderpad=0,
        borderaxespad=0,
    )
    write(_WIDTH - _MARGIN, height - 0.22, "one square is one order", fontsize=10, color=FAINT, ha="right")
    figure.savefig(path)


def _squares(axes: Axes, outcome: Outcome, across: int, down: int) -> None:
    squares = [
        Rectangle((number % across, number // across), _SQUARE, _SQUARE, facecolor=colour(charges))
        for number, charges in enumerate(outcome.audit.charges)
    ]
    axes.add_collection(PatchCollection(squares, match_original=True, linewidth=0))
    axes.set_xlim(0, across - 1 + _SQUARE)
    axes.set_ylim(down - 1 + _SQUARE, 0)
    axes.set_axis_off()
