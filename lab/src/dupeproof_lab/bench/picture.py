"""The figures as pictures for a slide: the published table and the guarded calls; and how stores grow."""

import io
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator
from msgspec import Struct

from dupeproof_lab.bench.affinity import MEANING
from dupeproof_lab.bench.growth import Growth
from dupeproof_lab.bench.model import BY_HAND, OURS, Row
from dupeproof_lab.bench.report import duration, megabytes, rate
from dupeproof_lab.bench.run import Report
from dupeproof_lab.pages import FAINT, INK

_PUBLISHED, _USUAL, _PEER, _OURS, _LIMIT = "#c9ced6", "#8d95a3", "#8d95a3", "#1b7f5f", "#e8590c"
_LINES = ("#1b7f5f", "#8bb33d", "#7a4fa3", "#b3261e", "#f08c00", "#c2528b", "#2f6fb0")
_WIDTH, _MARGIN, _HEAD, _FOOT, _GAP = 13.33, 0.45, 1.2, 0.55, 0.9
_BAR = 0.3
"""Inches, as all of these."""
_GUARDED = {
    "redis.one.new": "Redis, one caller",
    "redis.many.new": "Redis, 32 callers",
    "postgres.many.new": "PostgreSQL, 32 callers",
}


class Bar(Struct, frozen=True):
    value: float
    colour: str
    text: str


class Panel(Struct, frozen=True, kw_only=True):
    title: str
    groups: list[tuple[str, list[Bar]]]
    log: bool = False

    @property
    def lines(self) -> float:
        """Its height, in bars."""
        return sum(len(bars) for _, bars in self.groups) + self.gap * (len(self.groups) - 1)

    @property
    def gap(self) -> float:
        """Between groups, where they are more than one bar."""
        return 0.7 if any(len(bars) > 1 for _, bars in self.groups) else 0.0


def figures(report: Report) -> list[tuple[str, Figure]]:
    """By the name of the file each belongs in; none for what was not measured."""
    found = []
    rows = [row for row in (_published_panels(report), _guarded_panels(report)) if row]
    if rows:
        found.append(("bench", _bars(rows, report)))
    if grown := [growth for growth in report.results.growths if growth.points]:
        found.append(("scaling", _growth(grown, report)))
    return found


def as_svg(figure: Figure) -> str:
    """To stand inside a page: without the lines that make it a file of its own."""
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return text.getvalue()[text.getvalue().index("<svg") :]


# The bars


def _published_panels(report: Report) -> list[Panel]:
    speeds = [
        (
            each.method,
            _trio((each.published_speed, each.here_speed, each.our_speed), rate),
        )
        for each in report.published
        if each.our_speed is not None
    ]
    sizes = [
        (
            each.method,
            _trio((each.published_megabytes, each.here_megabytes, each.our_megabytes), megabytes),
        )
        for each in report.published
        if each.our_megabytes is not None
    ]
    panels = (
        Panel(title="Ids a second (log scale, longer is better)", groups=speeds, log=True),
        Panel(title="Memory for a million ids (log scale, shorter is better)", groups=sizes, log=True),
    )
    return [panel for panel in panels if panel.groups]


def _trio(figures: Sequence[float | None], words: Callable[[float], str]) -> list[Bar]:
    """Published, the same method here, and ours; without what there is not."""
    tones = (_PUBLISHED, _USUAL, _OURS)
    return [
        Bar(value, tone, words(value))
        for value, tone in zip(figures, tones, strict=True)
        if value is not None
    ]


def _guarded_panels(report: Report) -> list[Panel]:
    panels = []
    for prefix, title in _GUARDED.items():
        rows = [row for row in report.results.rows if row.name.startswith(f"{prefix}.") and row.speeds]
        rows.sort(key=lambda row: -median(row.speeds))
        if rows:
            groups = [(_name(row), [_bar(row)]) for row in rows]
            panels.append(Panel(title=f"Guarded calls/s, {title}", groups=groups))
    return panels


def _name(row: Row) -> str:
    """The number of callers is in the title; here only of which kind they are."""
    kind = {"one caller": "", "one task": " async"}.get(row.shape, f" {row.shape.partition(' ')[2]}")
    return f"{row.who}{kind}"


def _bar(row: Row) -> Bar:
    tone = {OURS: _OURS, BY_HAND: _PUBLISHED}.get(row.who, _PEER)
    return Bar(median(row.speeds), tone, rate(row.speed))


def _bars(rows: Sequence[list[Panel]], report: Report) -> Figure:
    heights = [max(panel.lines for panel in row) * _BAR for row in rows]
    height = _HEAD + sum(heights) + _GAP * (len(rows) - 1) + _FOOT
    figure = _figure(height, "What deduplication costs", report)
    top = height - _HEAD
    for row, high in zip(rows, heights, strict=True):
        wide = (_WIDTH - 2 * _MARGIN) / len(row)
        for place, panel in enumerate(row):
            names = 0.082 * max(len(name) for name, _ in panel.groups) + 0.15
            left = _MARGIN + place * wide
            own = panel.lines * _BAR
            axes = figure.add_axes(
                (
                    (left + names) / _WIDTH,
                    (top - own) / height,
                    (wide - names - 0.75) / _WIDTH,
                    own / height,
                )
            )
            figure.text(
                left / _WIDTH, (top + 0.12) / height, panel.title, fontsize=12, fontweight="bold", color=INK
            )
            _draw(axes, panel)
        top -= high + _GAP
    shades = (
        (_PUBLISHED, "published, or by hand"),
        (_USUAL, "same method here, or another library"),
        (_OURS, OURS),
    )
    figure.legend(
        handles=[Patch(color=tone, label=words) for tone, words in shades],
        loc="lower left",
        bbox_to_anchor=(_MARGIN / _WIDTH, 0.14 / height),
        ncols=3,
        frameon=False,
        fontsize=11,
        borderpad=0,
        borderaxespad=0,
    )
    return figure


def _draw(axes: Axes, panel: Panel) -> None:
    at = 0.0
    ticks = []
    for name, bars in panel.groups:
        ticks.append((at + (len(bars) - 1) / 2, name))
        for bar in bars:
            axes.barh(at, bar.value, height=0.82, color=bar.colour)
            axes.annotate(
                bar.text,
                (bar.value, at),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=10,
                color=_OURS if bar.colour == _OURS else INK,
                fontweight="bold" if bar.colour == _OURS else "normal",
            )
            at += 1
        at += panel.gap
    axes.set_yticks([place for place, _ in ticks], [name for _, name in ticks], fontsize=10.5, color=INK)
    axes.set_ylim(panel.lines - 0.5, -0.5)
    values = [bar.value for _, bars in panel.groups for bar in bars]
    if panel.log:
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 3, max(values))
    axes.tick_params(length=0, labelbottom=False)
    axes.xaxis.minorticks_off()
    axes.spines[:].set_visible(False)


# How stores grow


def _growth(growths: list[Growth], report: Report) -> Figure:
    height = 6.4
    figure = _figure(height, "What an id costs as the store grows", report)
    wide = (_WIDTH - 2 * _MARGIN) / 2
    axes = []
    for place, title in enumerate(
        ("Time for one id, in batches of 1,000", "The same, as a multiple of a small store")
    ):
        left = _MARGIN + place * wide
        figure.text(
            left / _WIDTH, (height - _HEAD + 0.12) / height, title, fontsize=12, fontweight="bold", color=INK
        )
        box = ((left + 0.6) / _WIDTH, 1.05 / height, (wide - 1.1) / _WIDTH, (height - _HEAD - 1.15) / height)
        axes.append(figure.add_axes(box))
    cost, ratio = axes
    for growth, tone in zip(growths, _LINES, strict=False):
        sizes = [point.size for point in growth.points]
        style: dict[str, Any] = {"color": tone, "marker": "o", "markersize": 5, "linewidth": 2}
        cost.plot(sizes, [point.seconds_per_id for point in growth.points], label=growth.title, **style)
        ratio.plot(sizes, [median(point.ratios) for point in growth.points], **style)
        ratio.vlines(
            sizes,
            [min(point.ratios) for point in growth.points],
            [max(point.ratios) for point in growth.points],
            color=tone,
            alpha=0.3,
        )
    cost.set_yscale("log")
    cost.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    cost.yaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
    ratio.axhline(1.5, color=_LIMIT, linestyle="--", linewidth=1.2)
    ratio.annotate(
        "goal: at most 1.5",
        (0.01, 1.5),
        xycoords=("axes fraction", "data"),
        xytext=(0, 4),
        textcoords="offset points",
        color=_LIMIT,
    )
    ratio.set_ylim(bottom=0)
    for each in axes:
        each.set_xscale("log")
        each.set_xlabel("ids in the store", color=FAINT)
        each.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _count(value)))
        each.minorticks_off()
        each.grid(axis="y", color="#e6e9ee")
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(colors=INK, labelsize=10)
    figure.legend(
        loc="lower left",
        bbox_to_anchor=(_MARGIN / _WIDTH, 0.14 / height),
        ncols=len(growths),
        frameon=False,
        fontsize=11,
        borderpad=0,
        borderaxespad=0,
    )
    return figure


def _figure(height: float, title: str, report: Report) -> Figure:
    figure = Figure(figsize=(_WIDTH, height), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    machine = report.machine
    versions = ", ".join(f"{name} {version}" for name, version in report.servers.items())
    words = (
        f"{machine.cores} cores, Python {machine.python}{', ' if versions else ''}{versions}; medians of {report.rounds} interleaved rounds; "
        f"{MEANING[report.pin].partition(':')[0]}"
    )
    figure.text(_MARGIN / _WIDTH, 1 - 0.45 / height, title, fontsize=19, fontweight="bold", color=INK)
    figure.text(_MARGIN / _WIDTH, 1 - 0.74 / height, words, fontsize=11, color=FAINT)
    return figure


def _count(value: float) -> str:
    return f"{value / 1e6:g} M" if value >= 1e6 else f"{value / 1e3:g} k"
