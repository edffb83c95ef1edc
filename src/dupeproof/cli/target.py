"""Which store, namespace and key a command is about; a mistyped one is an error, not a new empty store."""

import importlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from dupeproof import Entry, Once
from dupeproof.cli import settings
from dupeproof.cli.output import NotFound
from dupeproof.core.protocols import Store
from dupeproof.errors import ConfigError
from dupeproof.stores import open_store
from dupeproof.stores.factory import durable_url, plain_url
from dupeproof.stores.urls import parse_url

_DIGITS = re.compile("[0-9a-fA-F]{8,32}")
SHOWN_DIGITS = 12
_NONE_GIVEN = f"{settings.URL_VARIABLE} or {settings.FILE} where left out"

Url = Annotated[
    str | None,
    typer.Argument(
        metavar="URL",
        help=f"The store, such as sqlite:///dedup.db; {_NONE_GIVEN}.",
        show_default=False,
    ),
]
UrlOrKey = Url
"""Of `URL KEY` the URL may be left out, so a single word is the key; `url_and_key` sorts that out."""
KeyAfterUrl = Annotated[
    str | None,
    typer.Argument(
        metavar="KEY",
        help="The whole key, as `key_for` of a decorated function gives it; or eight or more digits of its digest, as "
        "logs, errors and `list` show them.",
        show_default=False,
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="The namespace of the key.",
        envvar=settings.NAMESPACE_VARIABLE,
    ),
]
UNKNOWN = "nothing is known of this key in namespace {}; of a decorated function give the whole key, as its key_for does"


def _for_errors_too(wanted: bool) -> bool:
    """Whether it was typed or stands in the file."""
    settings.json_wanted.set(wanted)
    return wanted


AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON for other programs.", callback=_for_errors_too)
]


def chosen(url: str | None) -> str:
    """The URL given, else the one of the environment, else that of the file."""
    found = url or os.environ.get(settings.URL_VARIABLE) or settings.current.get().url
    if found:
        return plain_url(found)
    raise ConfigError(
        "which store? Give its URL, such as sqlite:///dedup.db, "
        f"or set {settings.URL_VARIABLE}, or write it into {settings.FILE}"
    )


def after_url(words: list[str] | None) -> tuple[str, list[str]]:
    """The URL, which may be left out, and the words after it."""
    words = words or []
    url, rest = (words[0], words[1:]) if words and "://" in words[0] else (None, words)
    return existing(chosen(url)), rest


def url_and_key(first: str | None, second: str | None) -> tuple[str, str]:
    if first is None or (second is None and "://" in first):
        raise ConfigError("which key? Give it after the URL")
    url, key = (None, first) if second is None else (first, second)
    return existing(chosen(url)), key


def known_entry(once: Once, key: str) -> Entry:
    """What is known of a key, or of the one whose digest begins with these digits."""
    entry = once.get(key)
    if entry is not None:
        return entry
    found = once.find(key) if _DIGITS.fullmatch(key) else []
    if len(found) > 1:
        raise ConfigError(f"these digits begin {len(found)} digests; give more of them")
    if not found:
        raise NotFound(UNKNOWN.format(once.namespace))
    return found[0]


def existing(url: str) -> str:
    """The URL of a store that is there already: looking must not make one."""
    parsed = parse_url(durable_url(url))
    if parsed.scheme == "memory":
        raise ConfigError("memory:// lives and dies inside one process; there is nothing to see from here")
    if parsed.scheme == "sqlite":
        path = Path(parsed.parts.path[1:])
        if path.name and not path.exists():
            raise ConfigError(f"there is no file {path}; `dupeproof schema {parsed} --apply` makes it")
    return url


def opened(url: str | None) -> Store:
    return open_store(existing(chosen(url)))


def imported(name: str) -> Callable[..., Any]:
    """A function of the user's, such as a lookup."""
    module, colon, attribute = name.partition(":")
    if not module or not colon or not attribute:
        raise ConfigError(f"{name!r} is no function; write it as shop.payments:lookup")
    sys.path.insert(0, "")
    try:
        found = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"{name} cannot be imported: {exc}") from exc
    finally:
        sys.path.remove("")
    return found  # type: ignore[return-value]
