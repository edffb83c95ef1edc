"""Statements as we write them, `:name` for a parameter, and as each driver wants them."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal

Dialect = Literal["postgresql", "sqlite", "mysql"]
Style = Literal["named", "pyformat", "format", "qmark", "numeric_dollar"]
Pick = Callable[[Mapping[str, Any]], Any]
"""From named parameters to those the driver takes."""

_PARAMETER = re.compile(r"(?<![\w:]):([a-z]\w*)")
_LONGEST_KEPT = 16_384
_PIECE = re.compile(r"(?:--[^\n]*|\$\$.*?\$\$|'[^']*'|[^;'$-]|-(?!-)|\$(?!\$))+", re.DOTALL)
_ANY_COMMENT = re.compile(r"('[^']*')|\s*--[^\n]*")
_COMMENT = re.compile(r"^\s*(?:--[^\n]*\n\s*)*")


def rendered(statement: str, style: Style) -> tuple[str, Pick]:
    """The text, and what picks the parameters. Long ones, written for some number of rows, are not kept."""
    return (_kept if len(statement) <= _LONGEST_KEPT else _rendered)(statement, style)


def _rendered(statement: str, style: Style) -> tuple[str, Pick]:
    names: list[str] = _PARAMETER.findall(statement)
    if style == "named":
        return statement, dict
    if style == "pyformat":
        return _PARAMETER.sub(r"%(\1)s", statement), dict
    if style == "numeric_dollar":
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names), 1)}
        text = _PARAMETER.sub(lambda found: f"${numbers[found[1]]}", statement)
        return text, lambda parameters: tuple(parameters[name] for name in numbers)
    text = _PARAMETER.sub("?" if style == "qmark" else "%s", statement)
    return text, lambda parameters: tuple(parameters[name] for name in names)


_kept = lru_cache(256)(_rendered)


def numbered(statement: str, number: int) -> str:
    """The part of a statement that is for one row, with the number of that row after each name."""
    return _PARAMETER.sub(rf":\g<1>{number}", statement)


def split(script: str) -> list[str]:
    """The statements of one of our SQL files: not every driver takes several at once."""
    pieces = (_COMMENT.sub("", piece).strip() for piece in _PIECE.findall(script))
    return [piece for piece in pieces if piece]


def without_comments(statement: str) -> str:
    return _ANY_COMMENT.sub(lambda found: found[1] or "", statement)
