"""What came out, as tables for people and as JSON for programs.

The JSON, one object:

    schema      1
    quick, pin, rounds
    machine     system, processor, cores, memory_bytes, fdatasync_seconds, python, dupeproof,
                packages {name: version}, peers {name: version or null}
    servers     {store: version}
    published   [method, durability, published_speed, published_megabytes, here_speed, here_megabytes,
                our_name, our_speed, our_megabytes]: ids a second, and megabytes for a million ids
    rows        [benchmark, store, name, who, what, shape, durability, layout, count, speeds [one per round], speed
                (their median), p50, p99 (seconds), bytes_per_id, reason (null, or why it was not measured)]
    weights     [layout, store, title, count, bytes_per_id, reason]
    goals       [title, bound, target, unit, median, low, high, met (null where not measured), reason]
    scaling     [name, store, title, points [size, seconds_per_id, small_seconds_per_id, ratios], reason]
    false_positives   share of strangers a full Bloom filter takes for known, a text why not, or null
    files       {kind: path}
"""

from statistics import median
from typing import Any

import msgspec
from rich import box
from rich.markup import escape
from rich.table import Table

from dupeproof_lab.bench.affinity import MEANING
from dupeproof_lab.bench.model import OURS, Row
from dupeproof_lab.bench.run import Report

NONE = "–"
ROW_COLUMNS = ("who", "what", "how", "a second", "spread", "p50", "p99", "bytes/id", "durability")
GROWTH_COLUMNS = ("store", "ids in it", "one more", "beside a small one", "spread", "")
GOAL_COLUMNS = ("goal", "target", "measured", "spread", "")
PUBLISHED_COLUMNS = (
    "method",
    *("published", "same here", "dupeproof") * 2,
    "durability",
)
"""Ids a second thrice, then megabytes for a million ids thrice."""


def benchmarks(report: Report) -> dict[str, list[tuple[str, ...]]]:
    """The rows of every benchmark as text, in the order of `ROW_COLUMNS`."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for row in report.results.rows:
        found.setdefault(row.benchmark, []).append(_cells(row, _bytes_of(report, row)))
    return found


def _cells(row: Row, bytes_per_id: float | None) -> tuple[str, ...]:
    if row.speed is None:
        return (row.who, row.what, row.shape, NONE, NONE, NONE, NONE, NONE, row.reason or NONE)
    return (
        row.who,
        row.what,
        row.shape,
        f"{row.speed:,.0f}",
        spread(row.speeds),
        duration(row.p50),
        duration(row.p99),
        NONE if bytes_per_id is None else f"{bytes_per_id:,.1f}",
        row.durability,
    )


def goals(report: Report) -> list[tuple[str, ...]]:
    """In the order of `GOAL_COLUMNS`."""
    return [
        (
            each.title,
            f"{'≥' if each.bound == 'at least' else '≤'} {each.target:g} {each.unit}",
            NONE if each.median is None else f"{each.median:,.2f}",
            NONE
            if each.low is None or each.high is None or each.low == each.high
            else f"{each.low:,.2f}–{each.high:,.2f}",
            {True: "met", False: "missed", None: f"not measured: {each.reason}"}[each.met],
        )
        for each in report.verdicts
    ]


def published(report: Report) -> list[tuple[str, ...]]:
    """In the order of `PUBLISHED_COLUMNS`."""
    return [
        (
            each.method,
            rate(each.published_speed),
            rate(each.here_speed),
            rate(each.our_speed),
            megabytes(each.published_megabytes),
            megabytes(each.here_megabytes),
            megabytes(each.our_megabytes),
            each.durability,
        )
        for each in report.published
    ]


def growths(report: Report) -> list[tuple[str, ...]]:
    """In the order of `GROWTH_COLUMNS`."""
    found: list[tuple[str, ...]] = []
    for growth in report.results.growths:
        found += [
            (
                growth.title,
                f"{point.size:,}",
                duration(point.seconds_per_id),
                f"{median(point.ratios):.2f} ×",
                f"{min(point.ratios):.2f}–{max(point.ratios):.2f}",
                "",
            )
            for point in growth.points
        ]
        if growth.reason is not None:
            found.append((growth.title, NONE, NONE, NONE, NONE, growth.reason))
    return found


def headline(report: Report) -> str:
    machine = report.machine
    versions = {"Python": machine.python, **report.servers}
    return (
        f"{machine.cores} cores of {machine.processor}, fdatasync {duration(machine.fdatasync_seconds)}, "
        f"{', '.join(f'{name} {version}' for name, version in versions.items())}; pinned {report.pin} ({MEANING[report.pin]}); "
        f"medians of {report.rounds} interleaved rounds"
    )


def tables(report: Report) -> list[Table]:
    """For a terminal of a hundred columns."""
    shown = [_benchmark_table(title, rows) for title, rows in benchmarks(report).items()]
    shown.append(_table("The published table", PUBLISHED_COLUMNS, published(report)))
    if grown := growths(report):
        shown.append(_table("As the store grows", GROWTH_COLUMNS, grown))
    measured = [row for row in goals(report) if row[2] != NONE]
    shown.append(_table("Goals", GOAL_COLUMNS, measured))
    return shown


def _benchmark_table(title: str, rows: list[tuple[str, ...]]) -> Table:
    """Who, what and how in one column."""
    return _table(
        title, ("", *ROW_COLUMNS[3:]), [(", ".join(filter(None, row[:3])), *row[3:]) for row in rows]
    )


def _table(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=box.SIMPLE)
    last = len(columns) - 1
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place in (0, last) else "right", no_wrap=0 < place < last)
    for row in rows:
        table.add_row(*map(escape, row), style=_style(row))
    return table


def _style(row: tuple[str, ...]) -> str:
    if row[0].startswith(OURS):
        return "bold"
    return {"met": "green", "missed": "bold red"}.get(row[-1], "")


def unmeasured(report: Report) -> dict[str, list[str]]:
    """Goals that were not measured, by the reason."""
    found: dict[str, list[str]] = {}
    for each in report.verdicts:
        if each.met is None:
            found.setdefault(str(each.reason), []).append(each.title)
    return found


def facts(report: Report, files: dict[str, str]) -> dict[str, Any]:
    results = report.results
    return {
        "schema": 1,
        "quick": report.quick,
        "pin": report.pin,
        "rounds": report.rounds,
        "machine": msgspec.to_builtins(report.machine),
        "servers": report.servers,
        "published": msgspec.to_builtins(report.published),
        "rows": [
            {**msgspec.to_builtins(row), "speed": row.speed, "bytes_per_id": _bytes_of(report, row)}
            for row in results.rows
        ],
        "weights": msgspec.to_builtins(results.weights),
        "goals": msgspec.to_builtins(report.verdicts),
        "scaling": msgspec.to_builtins(results.growths),
        "false_positives": results.false_positives,
        "files": files,
    }


def _bytes_of(report: Report, row: Row) -> float | None:
    weights = (each for each in report.results.weights if each.layout == row.layout)
    return next((each.bytes_per_id for each in weights), None)


# Figures as people read them


def rate(speed: float | None) -> str:
    if speed is None:
        return NONE
    if speed >= 999_500:
        return f"{speed / 1_000_000:.1f} M/s"
    if speed >= 999.5:
        return f"{speed / 1_000:.0f} k/s" if speed >= 9_950 else f"{speed / 1_000:.1f} k/s"
    return f"{speed:.0f}/s"


def megabytes(amount: float | None) -> str:
    return NONE if amount is None else f"{amount:.3g} MB"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def spread(figures: list[float]) -> str:
    """Half of what lies between the slowest and the fastest round, in per cent of the median."""
    ordered = sorted(figures)
    middle = ordered[len(ordered) // 2]
    return f"±{50 * (ordered[-1] - ordered[0]) / middle:.0f} %"
