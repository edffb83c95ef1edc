"""What commands print: results to standard output, everything else to standard error."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from dupeproof.errors import ConfigError
from dupeproof.stores.urls import redact

_URL = re.compile(r"[\w+.-]+://\S+")
out = Console()
err = Console(stderr=True)


class NotFound(Exception):
    """There is nothing under this key. Exit code 1."""


def complain(text: str, *, as_json: bool = False) -> None:
    """What is wrong, in a line for people; programs that read JSON get it there too."""
    line = " ".join(text.split())
    err.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        say_json({"error": line})


def say(text: str) -> None:
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def say_json(value: Any) -> None:
    """One line that other programs read: never coloured, never wrapped."""
    out.file.write(msgspec.json.encode(value).decode() + "\n")
    out.file.flush()


def report(text: str, facts: dict[str, Any], *, as_json: bool) -> None:
    """What was done: a line for people, or the facts for programs."""
    if as_json:
        say_json(facts)
    else:
        say(text)


def say_pairs(pairs: dict[str, object]) -> None:
    """Names and values under each other."""
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in pairs.items():
        table.add_row(name, _plain(value))
    out.print(table, markup=False, highlight=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    shown = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*map(escape, row))
    out.print(shown, highlight=False)


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """How far a walk of unknown length is, on a terminal."""
    columns = (TextColumn("{task.completed:,.0f}"), TextColumn(what), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bar:
        walk = bar.add_task(what, total=None)
        yield lambda count: bar.update(walk, completed=count)


def size(count: int) -> str:
    amount = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:,.0f} {unit}" if unit == "bytes" else f"{amount:,.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TiB"


def made(folder: Path) -> Path:
    """Where results are to go, asked for before the work that makes them and not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigError(f"--out {folder} cannot be made: {exc.strerror}") from exc
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"--out {folder} cannot be written to by this user")
    return folder


def _plain(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def without_secrets(text: str) -> str:
    """A text of unknown origin, fit to be printed: URLs in it lose their passwords."""
    return _URL.sub(lambda found: redact(found[0]), text)
