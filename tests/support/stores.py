"""Run one test on several stores: `@on("sqlite", "redis")` gives it a `url` for each."""

import uuid

import psycopg
import pytest

EVERY = ("memory", "sqlite", "redis", "redis_cluster", "postgres")
SHARED = ("sqlite", "redis", "redis_cluster", "postgres")
"""The ones several processes can use."""
DURABLE = ("sqlite", "redis", "postgres")
"""One of each kind that processes share."""
EMBEDDED = ("memory", "sqlite")
NEW = "new_"
"""`new_postgres` is a database in which nothing has been made yet; `postgres` one whose tables are empty."""


def on(*names: str) -> pytest.MarkDecorator:
    params = [
        pytest.param(name, marks=() if name in EMBEDDED else pytest.mark.server(name.removeprefix(NEW)))
        for name in names
    ]
    return pytest.mark.parametrize("url", params, indirect=True)


def url_of(name: str, request: pytest.FixtureRequest) -> str:
    if name == "memory":
        return f"memory://{uuid.uuid4().hex}"
    if name == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/dedup.db"
    if name == "postgres":
        return emptied(request.getfixturevalue("postgres_module_url"))
    return request.getfixturevalue(f"{name.removeprefix(NEW)}_url")


def emptied(url: str) -> str:
    """A database costs half a second to make and drop; emptying its tables, milliseconds."""
    with psycopg.connect(url, autocommit=True) as connection:
        made = connection.execute("SELECT to_regclass('dupeproof_records') IS NOT NULL").fetchone()
        if made == (True,):
            connection.execute("DELETE FROM dupeproof_records")
            connection.execute("DELETE FROM dupeproof_marks")
            connection.execute("DELETE FROM dupeproof_sequences")
    return url
