"""How late the duplicates of a group come, for people and for programs."""

from typing import Any

from dupeproof.core.durations import about, shown
from dupeproof.core.lateness import BOUNDS, Lateness
from dupeproof.inbox.groups import Group

_LEVELS = "▁▂▃▄▅▆▇█"
_WIDTH = 40
_NONE = "-"


def facts(group: Group) -> dict[str, Any]:
    """Durations in seconds."""
    found = group.lateness
    return {
        "window": _seconds(group.window),
        "messages": found.messages,
        "duplicates": found.duplicates,
        "late": found.late,
        "p50": _seconds(found.within(0.5)),
        "p99": _seconds(found.within(0.99)),
        "longest": _seconds(found.longest if found.messages else None),
        "suggested": _seconds(found.suggested),
        "histogram": [
            {"under": _seconds(bound), "messages": count}
            for bound, count in zip((*BOUNDS, None), found.counts, strict=True)
        ],
    }


def row(group: Group) -> dict[str, str]:
    """One line of a list, by title."""
    found = group.lateness
    return {
        "group": group.name,
        "window": _NONE if group.window is None else shown(group.window),
        "duplicates": f"{found.duplicates:,}",
        "late": f"{found.late:,}",
        "p50": _about(found.within(0.5)),
        "p99": _about(found.within(0.99)),
        "longest": _about(found.longest if found.messages else None),
        "suggested": _about(found.suggested),
        "": _line(found),
    }


def pairs(group: Group) -> dict[str, object]:
    """All of one group, by title."""
    found = group.lateness
    titled: dict[str, object] = {
        group.name: "as its code says" if group.window is None else shown(group.window)
    }
    if found.messages:
        titled |= {
            "messages that came again": found.messages,
            "duplicates": found.duplicates,
            "late, so taken for new": found.late,
            "half of them within": _about(found.within(0.5)),
            "99 % within": _about(found.within(0.99)),
            "longest": _about(found.longest),
            "suggested window": _about(found.suggested),
        }
    return titled


def bars(group: Group) -> list[str]:
    """A bar for each bucket, from the first that is not empty to the last."""
    counts = group.lateness.counts
    most = max(counts)
    titles = [*(f"under {shown(bound)}" for bound in BOUNDS), "longer"]
    return [f"{titles[n]:>10}  {'█' * -(-counts[n] * _WIDTH // most)} {counts[n]:,}" for n in _filled(counts)]


def _line(found: Lateness) -> str:
    most = max(found.counts)
    levels = (-(-found.counts[n] * (len(_LEVELS) - 1) // most) for n in _filled(found.counts))
    return "".join(_LEVELS[level] for level in levels)


def _filled(counts: tuple[int, ...]) -> range:
    filled = [n for n, count in enumerate(counts) if count]
    return range(filled[0], filled[-1] + 1) if filled else range(0)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1_000


def _about(milliseconds: int | None) -> str:
    return _NONE if milliseconds is None else about(milliseconds)
