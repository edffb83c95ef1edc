"""`dupeproof schema`: the SQL a store needs, to be read, run by hand, or applied."""

from contextlib import closing
from typing import Annotated, Protocol, runtime_checkable

import typer

from dupeproof.cli.output import out, say
from dupeproof.cli.target import Url, chosen
from dupeproof.core.protocols import Inspectable, ability
from dupeproof.sql import Translated, join
from dupeproof.sql._sync.databases import opened
from dupeproof.sql.databases import is_mysql
from dupeproof.sql.statements import split
from dupeproof.stores import open_store
from dupeproof.stores.mysql import SCHEMA as MYSQL
from dupeproof.stores.urls import redact


@runtime_checkable
class Migrating(Protocol):
    def migrate(self) -> list[int]: ...


def schema(
    url: Url = None,
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Make the tables, or bring them up to date.")
    ] = False,
) -> None:
    """Print the tables and functions the store needs, or with --apply make them. Applying twice is fine.

    Stores make their schema on first use by themselves; this is for those who run with fewer rights.
    """
    chosen_url = chosen(url)
    shown = redact(chosen_url)
    if is_mysql(chosen_url):
        _mysql(chosen_url, apply=apply)
        return
    with closing(open_store(chosen_url)) as store:
        inspectable = ability(store, Inspectable)  # type: ignore[type-abstract]
        migrating = ability(store, Migrating)  # type: ignore[type-abstract]
        if inspectable is None:
            say(f"{shown} has no schema; there is nothing to make")
        elif not apply:
            out.file.write(inspectable.schema())
        elif migrating is not None:
            applied = migrating.migrate()
            say(f"{shown}: applied {', '.join(map(str, applied))}" if applied else f"{shown}: up to date")
        else:
            store.check()
            say(f"{shown}: up to date")


def _mysql(url: str, *, apply: bool) -> None:
    """MariaDB and MySQL hold inboxes and outboxes only; their files make what is missing."""
    if not apply:
        out.file.write(MYSQL)
        return
    with Translated(), opened(url)() as connection:
        joined = join(connection)
        for statement in split(MYSQL):
            joined.execute(statement)
    say(f"{redact(url)}: up to date")
