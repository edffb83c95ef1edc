"""Paths into nested data: one step into a value, and patterns that match many paths."""

from collections.abc import Iterable, Mapping
from typing import Any

from dupeproof.errors import ConfigError
from dupeproof.keys.models import fields_reader

ABSENT: Any = object()

Pattern = tuple[str, ...]


def parse_path(path: object, *, what: str) -> Pattern:
    """The steps of a dotted path; `what` is what the error calls it."""
    if not isinstance(path, str) or not path:
        raise ConfigError(f"{what} must be a dotted path such as 'order.id', got {path!r:.80}")
    steps = tuple(path.split("."))
    if not all(steps):
        raise ConfigError(f"{what} {path!r} has an empty step; write the names with one dot between them")
    return steps


def follow(value: Any, steps: Iterable[str]) -> Any:
    """The value at the end of the path: mapping items, list indexes, else attributes. ABSENT if there is none."""
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step, ABSENT)
        elif isinstance(value, list | tuple) and step.isdecimal():
            value = value[int(step)] if int(step) < len(value) else ABSENT
        else:
            value = getattr(value, step, ABSENT)
        if value is ABSENT:
            return ABSENT
    return value


def children(value: Any) -> list[tuple[str, Any, Any]] | None:
    """What a path may step into, as (step, key, item); None for a value without parts.

    The parts of a set have no names, and a dict key that is neither text nor a whole number cannot be written in a
    path: such parts are never matched, except by `*`.
    """
    if isinstance(value, dict):
        return [(str(key) if isinstance(key, str | int) else "", key, item) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [(str(index), index, item) for index, item in enumerate(value)]
    kind: Any = type(value)
    reader = fields_reader(kind)
    return None if reader is None else [(name, name, item) for name, item in reader(value).items()]


def advance(patterns: Iterable[Pattern], step: str) -> set[Pattern]:
    """What is left of the patterns after one step. An empty pattern among them: the path is matched."""
    left: set[Pattern] = set()
    for pattern in patterns:
        if not pattern:
            continue
        if pattern[0] == "**":
            left.add(pattern)
            left |= advance((pattern[1:],), step)
        elif pattern[0] in ("*", step):
            left.add(pattern[1:])
    return left


def parse_patterns(paths: str | Iterable[str], *, what: str) -> list[Pattern]:
    if isinstance(paths, str):
        raise ConfigError(f"{what} must be a list of paths; write [{paths!r}]")
    patterns = [parse_path(path, what=f"a path in {what}") for path in paths]
    for pattern in patterns:
        if pattern[-1] == "**":
            raise ConfigError(f"'**' in {what} needs a name after it, as in '**.timestamp'")
    return patterns
