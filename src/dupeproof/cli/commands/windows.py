"""`dupeproof windows`: how long inboxes remember, by group, while they run; and how long they should."""

from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from dupeproof.cli.lateness import bars, facts, pairs, row
from dupeproof.cli.output import NotFound, out, report, say, say_json, say_pairs
from dupeproof.cli.target import AsJson, after_url
from dupeproof.core.durations import shown
from dupeproof.errors import ConfigError
from dupeproof.inbox import Inbox
from dupeproof.inbox import windows as stored
from dupeproof.inbox.groups import Group, read_groups


class Verb(StrEnum):
    LIST = "list"
    GET = "get"
    SET = "set"
    UNSET = "unset"


def windows(
    verb: Verb,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[URL] [GROUP] [WINDOW]",
            help="The database of the inboxes, which may be left out as elsewhere; a group; 4h, or payments.",
            show_default=False,
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List, get, set or unset the window of a group. Running consumers follow within a minute.

    Also shown is how long after the first one duplicates come, by the last time of each message, and the window that
    suggests: twice the time within which 99.9 % of them came, never less than the longest. Groups without a window here
    have the one their code says.
    """
    url, rest = after_url(words)
    match verb, rest:
        case Verb.LIST, []:
            _list(read_groups(url), as_json=as_json)
        case Verb.GET, [group]:
            _get(read_groups(url), group, as_json=as_json)
        case Verb.SET, [group, window]:
            _change(url, group, window)
            told = shown(stored.window_milliseconds(window))
            report(f"{group}: {told}", {"group": group, "window": told}, as_json=as_json)
        case Verb.UNSET, [group]:
            _change(url, group, None)
            report(f"{group}: as its code says", {"group": group, "window": None}, as_json=as_json)
        case _:
            raise ConfigError("write: windows list URL, get URL GROUP, set URL GROUP 4h, or unset URL GROUP")


def _change(url: str, group: str, window: str | None) -> None:
    with Inbox(group, database=url) as inbox, inbox.transaction() as connection:
        inbox.change_window(connection, window)


def _list(groups: dict[str, Group], *, as_json: bool) -> None:
    if as_json:
        say_json({name: facts(group) for name, group in groups.items()})
    elif groups:
        table = Table(box=None, header_style="dim")
        for title in row(next(iter(groups.values()))):
            table.add_column(title, overflow="fold", no_wrap=title != "group")
        for group in groups.values():
            table.add_row(*row(group).values())
        out.print(table, markup=False, highlight=False)
    else:
        say("no group has a window of its own, or had a duplicate; their code says")


def _get(groups: dict[str, Group], name: str, *, as_json: bool) -> None:
    if name not in groups:
        raise NotFound(f"no window is set for {name}, and nothing of it came again; its code says")
    if as_json:
        say_json(facts(groups[name]))
        return
    say_pairs(pairs(groups[name]))
    for line in bars(groups[name]):
        say(line)
