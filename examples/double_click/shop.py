"""The shop behind the form: what was ordered, by whom, in SQLite. A payment takes a second, time enough to click again."""

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

DATABASE = os.environ.get("ORDERS", "double_click.db")
SECRET = os.environ.get("SECRET") or secrets.token_urlsafe(32)
"""Yours comes from the settings: forms must outlive a restart, and be good on every server."""
TEMPLATES = Path(__file__).parent / "templates"
SECONDS_TO_PAY = float(os.environ.get("SECONDS_TO_PAY", "1"))


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(DATABASE)) as connection, connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS orders (number TEXT PRIMARY KEY, visitor TEXT NOT NULL, item TEXT NOT NULL)"
        )
        yield connection


def new_visitor() -> str:
    """Kept in a cookie; where people sign in, it is their id."""
    return secrets.token_urlsafe(16)


def purpose(visitor: str | None) -> dict[str, str | None]:
    """What a form is good for: this visitor's order, and nothing else."""
    return {"visitor": visitor, "action": "order"}


def take(number: str, visitor: str | None, item: str) -> None:
    time.sleep(SECONDS_TO_PAY)
    with database() as connection:
        connection.execute("INSERT INTO orders VALUES (?, ?, ?)", (number, visitor, item[:60]))


def item_of(number: str, visitor: str | None) -> str | None:
    """None while it is being paid."""
    with database() as connection:
        found = connection.execute(
            "SELECT item FROM orders WHERE number = ? AND visitor = ?", (number, visitor)
        ).fetchone()
    return None if found is None else str(found[0])


def items_of(visitor: str) -> list[str]:
    with database() as connection:
        found = connection.execute("SELECT item FROM orders WHERE visitor = ? ORDER BY rowid", (visitor,))
        return [item for (item,) in found]
