"""PostgreSQL: a database of its own, on a server of our own or on one that was given."""

import secrets
from contextlib import ExitStack
from functools import cached_property
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

import psycopg

from dupeproof_lab.bench.environments.base import Environment
from dupeproof_lab.servers import Postgres
from dupeproof_lab.servers.warden import tree

# Durable, and with the memory a server of any size would be given; the rest is its default.
_SETTINGS: dict[str, str | int] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_preload_libraries": "",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
}
_TABLES = """
    SELECT oid::regclass::text FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'dupeproof_migrations'
      AND pg_relation_size(oid) > 0
"""
_SIZE = f"SELECT coalesce(sum(pg_total_relation_size(name)), 0) FROM ({_TABLES}) AS filled (name)"  # noqa: S608


class PostgresSite(Environment):
    store = "postgres"

    def __init__(self, given: str | None = None) -> None:
        self._given = given
        self._server = Postgres(settings=_SETTINGS)
        self._name = f"dupeproof_bench_{secrets.token_hex(6)}"
        self._stack = ExitStack()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    @property
    def _home(self) -> str:
        return self._server.url if self._given is None else self._given

    @property
    def url(self) -> str:
        return urlunsplit(urlsplit(self._home)._replace(path=f"/{self._name}"))

    @cached_property
    def durability(self) -> str:
        settings = {
            name: self._rows(f"SHOW {name}")[0][0]
            for name in ("fsync", "synchronous_commit", "full_page_writes")
        }
        off = [name for name, value in settings.items() if value == "off"]
        return f"not full: {', '.join(off)} off" if off else "full (fsync each commit)"

    @property
    def version(self) -> str:
        return str(self._rows("SHOW server_version")[0][0]).split()[0]

    @property
    def pids(self) -> list[int]:
        pid = None if self._given is not None else self._server.pid
        return [] if pid is None else tree(pid)

    def clean(self) -> None:
        tables = [table for (table,) in self._rows(_TABLES)]
        if tables:
            self._rows(f"TRUNCATE {', '.join(tables)}")

    def next_round(self) -> None:
        self.clean()

    def size(self) -> int:
        return int(self._rows(_SIZE)[0][0])

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        assert self._connection is not None, "the environment is not entered"
        cursor = self._connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._given is None:
                stack.enter_context(self._server)
            home = stack.enter_context(psycopg.connect(self._home, autocommit=True))
            home.execute(f"CREATE DATABASE {self._name} TEMPLATE template0".encode())
            stack.callback(home.execute, f"DROP DATABASE {self._name} WITH (FORCE)".encode())
            self._connection = stack.enter_context(psycopg.connect(self.url, autocommit=True))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
