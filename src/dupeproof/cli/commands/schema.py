"""`dupeproof schema`: the SQL a store needs, to be read, run by hand, or applied."""

from contextlib import closing
from typing import Annotated, Protocol, runtime_checkable

import typer

from dupeproof.cli.output import out, say
from dupeproof.cli.target import Url, chosen
from dupeproof.core.protocols import Inspectable
from dupeproof.stores import open_store
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
    with closing(open_store(chosen_url)) as store:
        if not isinstance(store, Inspectable):
            say(f"{shown} has no schema; there is nothing to make")
        elif not apply:
            out.file.write(store.schema())
        elif isinstance(store, Migrating):
            applied = store.migrate()
            say(f"{shown}: applied {', '.join(map(str, applied))}" if applied else f"{shown}: up to date")
        else:
            store.check()
            say(f"{shown}: up to date")
