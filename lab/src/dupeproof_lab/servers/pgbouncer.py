"""PgBouncer in transaction mode: puts any of its few connections behind any statement of anybody."""

import os
import pwd
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from .base import ProcessServer
from .postgres import run_sql

_CONFIGURATION = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = plain
auth_file = {home}/users
pool_mode = {pool_mode}
default_pool_size = {connections}
pidfile = {home}/pid
"""


class PgBouncer(ProcessServer):
    """Stands before the PostgreSQL of that URL; `url` is the same database, reached through it."""

    name = "pgbouncer"

    def __init__(
        self, database: str, *, connections: int = 3, pool_mode: str = "transaction", port: int | None = None
    ) -> None:
        super().__init__(port=port)
        self._database = urlsplit(database)
        self._connections = connections
        self._pool_mode = pool_mode

    @property
    def user(self) -> int | None:
        """It refuses to run as root."""
        return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None

    def prepare(self) -> None:
        there = self._database
        (self.home / "users").write_text(f'"{there.username}" "{there.password}"\n')
        (self.home / "pgbouncer.ini").write_text(
            _CONFIGURATION.format(
                host=there.hostname,
                port=there.port,
                own_port=self.port,
                home=self.home,
                connections=self._connections,
                pool_mode=self._pool_mode,
            )
        )
        if self.user is not None:
            for file in self.home.iterdir():
                os.chown(file, self.user, -1)

    def command(self) -> Sequence[str | Path]:
        return [self.programs()["pgbouncer"], self.home / "pgbouncer.ini"]

    def ready(self) -> bool:
        """Its own word first: somebody else's may be the one that answers on the port."""
        return (self.home / "pid").read_text().strip() == str(self.pid) and self.version != ""

    @property
    def url(self) -> str:
        there = self._database
        place = f"{there.username}:{there.password}@127.0.0.1:{self.port}"
        return urlunsplit(there._replace(netloc=place))

    @property
    def version(self) -> str:
        return run_sql(self.url, "SHOW server_version").split()[0]
