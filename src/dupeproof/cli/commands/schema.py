"""`dupeproof schema`: the SQL a store needs, to be read, run by hand, or applied."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Annotated, Protocol, TypeVar, runtime_checkable

import typer

from dupeproof.cli.output import out, report, say_json
from dupeproof.cli.target import AsJson, Url, chosen, existing
from dupeproof.core.protocols import Inspectable, ability
from dupeproof.errors import ConfigError
from dupeproof.sql import CallerConnection, Translated, adapt
from dupeproof.sql.database_option import is_mysql
from dupeproof.sql.databases import opened
from dupeproof.sql.statements import split
from dupeproof.stores import open_store
from dupeproof.stores.factory import durable_url
from dupeproof.stores.grants import grants as granted
from dupeproof.stores.installation import applied
from dupeproof.stores.mysql import SCHEMA as MYSQL
from dupeproof.stores.postgres.migrations import migrations
from dupeproof.stores.urls import redact

R = TypeVar("R")
_REVISION = """\
import dupeproof.alembic


def upgrade() -> None:
    dupeproof.alembic.upgrade({upgrade})


def downgrade() -> None:
    dupeproof.alembic.downgrade({downgrade})
"""


@runtime_checkable
class Migrating(Protocol):
    def migrate(self) -> list[int]: ...


def schema(
    url: Url = None,
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Make the tables, or bring them up to date.")
    ] = False,
    grants: Annotated[
        str | None,
        typer.Option(
            "--grants", metavar="USER", help="Print what this user must be granted to work with the tables."
        ),
    ] = None,
    alembic: Annotated[
        bool,
        typer.Option("--alembic", help="Print what brings the tables up to date in a revision of Alembic."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the tables and functions the store needs, or with --apply make them. Applying twice is fine.

    Stores make their schema on first use by themselves; this is for those who run with fewer rights.
    """
    if apply + alembic + (grants is not None) > 1:
        raise ConfigError("--apply, --grants and --alembic go one at a time")
    chosen_url = chosen(url)
    shown = redact(chosen_url)
    if grants is not None:
        _print(
            shown,
            "".join(f"{line}\n" for line in _looked(chosen_url, partial(granted, user=grants))),
            as_json=as_json,
        )
        return
    if alembic:
        _print(shown, _looked(chosen_url, _revision), as_json=as_json)
        return
    if is_mysql(chosen_url):
        _mysql(chosen_url, apply=apply, as_json=as_json)
        return
    with closing(open_store(chosen_url)) as store:
        inspectable = ability(store, Inspectable)  # type: ignore[type-abstract]
        migrating = ability(store, Migrating)  # type: ignore[type-abstract]
        if inspectable is None:
            report(f"{shown} has no schema; there is nothing to make", {"store": shown}, as_json=as_json)
        elif not apply:
            _print(shown, inspectable.schema(), as_json=as_json)
        elif migrating is not None:
            applied = migrating.migrate()
            _applied(shown, applied, as_json=as_json)
        else:
            store.check()
            _applied(shown, [], as_json=as_json)


def _looked(url: str, look: Callable[[CallerConnection], R]) -> R:
    """What is found on a connection of an owner."""
    with Translated(), opened(durable_url(existing(url)))() as connection:
        return look(adapt(connection))


def _revision(adapted: CallerConnection) -> str:
    """From the version that is there to the newest one."""
    upgrade, downgrade = "op", "op"
    if adapted.dialect == "postgresql":
        before, newest = max(applied(adapted), default=0), migrations()[-1].version
        upgrade = f"op, to={newest}"
        downgrade = f"op, to={before}" if before else "op"
    return _REVISION.format(upgrade=upgrade, downgrade=downgrade)


def _print(shown: str, sql: str, *, as_json: bool) -> None:
    if as_json:
        say_json({"store": shown, "sql": sql})
    else:
        out.file.write(sql)


def _applied(shown: str, versions: list[int], *, as_json: bool) -> None:
    done = f"applied {', '.join(map(str, versions))}" if versions else "up to date"
    report(f"{shown}: {done}", {"store": shown, "applied": versions}, as_json=as_json)


def _mysql(url: str, *, apply: bool, as_json: bool) -> None:
    """MariaDB and MySQL hold inboxes and outboxes only; their files make what is missing."""
    if not apply:
        _print(redact(url), MYSQL, as_json=as_json)
        return
    with Translated(), opened(url)() as connection:
        adapted = adapt(connection)
        for statement in split(MYSQL):
            adapted.execute(statement)
    _applied(redact(url), [], as_json=as_json)
