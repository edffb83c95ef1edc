"""`dupeproof windows`: how long inboxes remember, by group, while they run."""

from enum import StrEnum
from typing import Annotated

import typer

from dupeproof.cli.output import NotFound, say, say_json, say_pairs
from dupeproof.cli.target import AsJson, existing
from dupeproof.errors import ConfigError
from dupeproof.inbox import Inbox
from dupeproof.inbox import windows as stored
from dupeproof.sql import Translated, join
from dupeproof.sql.faults import table_missing

_TRANSLATED = Translated(table_missing("dupeproof_windows", "inbox"))


class Verb(StrEnum):
    LIST = "list"
    GET = "get"
    SET = "set"
    UNSET = "unset"


def windows(
    verb: Verb,
    url: Annotated[str, typer.Argument(metavar="URL", help="The database of the inboxes.")],
    group: Annotated[str | None, typer.Argument(metavar="GROUP", show_default=False)] = None,
    window: Annotated[
        str | None,
        typer.Argument(metavar="WINDOW", help="Such as 4h, or payments.", show_default=False),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List, get, set or unset the window of a group. Running consumers follow within a minute.

    Groups that are not listed have the window their code says.
    """
    if (verb is Verb.LIST) is not (group is None) or (verb is Verb.SET) is not (window is not None):
        raise ConfigError("write: windows list URL, get URL GROUP, set URL GROUP 4h, or unset URL GROUP")
    if verb is Verb.SET:
        assert group is not None
        assert window is not None
        _change(url, group, window)
        say(f"{group}: {_shown(stored.window_milliseconds(window))}")
    elif verb is Verb.UNSET:
        assert group is not None
        _change(url, group, None)
        say(f"{group}: as its code says")
    else:
        _show(_read(url), group, as_json=as_json)


def _change(url: str, group: str, window: str | None) -> None:
    inbox = Inbox(group, database=existing(url))
    with inbox.transaction() as connection:
        inbox.change_window(connection, window)


def _read(url: str) -> dict[str, int]:
    with Inbox("any", database=existing(url)).transaction() as connection, _TRANSLATED:
        return dict(join(connection).execute(stored.LIST))


def _show(found: dict[str, int], group: str | None, *, as_json: bool) -> None:
    if group is not None:
        if group not in found:
            raise NotFound(f"no window is set for {group}; its code says")
        found = {group: found[group]}
    if as_json:
        say_json({name: window / 1_000 for name, window in found.items()})
    elif found:
        say_pairs({name: _shown(window) for name, window in found.items()})
    else:
        say("no group has a window of its own; their code says")


def _shown(milliseconds: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"
