"""MariaDB: one server with its defaults, a user who may do everything, and fresh databases on request."""

import contextlib
import os
import pwd
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from . import process
from .base import ProcessServer, ServerFailed
from .install import ensure

SUPERUSER = "dupeproof"


class MariaDB(ProcessServer):
    """Durable as a real one: each commit is synced. `settings` are lines of my.cnf: `{"innodb_lock_wait_timeout": 1}`."""

    name = "mariadb"
    orphan_signal = signal.SIGKILL  # it has nothing outside its folder, and may take its time with SIGTERM

    def __init__(
        self,
        *,
        port: int | None = None,
        settings: Mapping[str, str | int] | None = None,
        search: Sequence[str] | None = None,
    ) -> None:
        super().__init__(port=port, search=search)
        self._password = secrets.token_hex(8)
        self._settings: dict[str, str | int] = {"max_connections": 200, **(settings or {})}

    @property
    def user(self) -> int | None:
        """It refuses to run as root; the package brings a user for it."""
        if os.geteuid() != 0:
            return None
        with contextlib.suppress(KeyError):
            return pwd.getpwnam("mysql").pw_uid
        return pwd.getpwnam("nobody").pw_uid

    def prepare(self) -> None:
        # Root gets in by the local socket alone, whose folder is closed to everyone else.
        command: list[str | Path] = [
            self.programs()["mariadb-install-db"],
            "--no-defaults",
            f"--datadir={self._data}",
            "--auth-root-authentication-method=socket",
            "--skip-test-db",
        ]
        with self.log.open("ab") as log:
            running = process.spawn(
                command, cwd=self.home, log=log, user=self.user, end_signal=signal.SIGTERM
            )
        process.forget(running)
        if running.returncode != 0:
            raise ServerFailed(f"mariadb-install-db failed\n{self.tail()}")
        first = self.home / "first.sql"
        first.write_text(
            f"CREATE USER IF NOT EXISTS {SUPERUSER}@'%' IDENTIFIED BY '{self._password}';\n"
            f"GRANT ALL ON *.* TO {SUPERUSER}@'%' WITH GRANT OPTION;\n"
        )
        if self.user is not None:
            os.chown(first, self.user, -1)

    def command(self) -> Sequence[str | Path]:
        fixed = {
            "datadir": self._data,
            "bind_address": "127.0.0.1",
            "port": self.port,
            "socket": self.home / "socket",
            "pid_file": self._pid_file,
            "init_file": self.home / "first.sql",
            "character_set_server": "utf8mb4",
            "skip_name_resolve": "on",
        }
        settings = {**fixed, **self._settings}
        return [
            self.programs()["mariadbd"],
            "--no-defaults",
            *(f"--{name.replace('_', '-')}={value}" for name, value in settings.items()),
        ]

    def ready(self) -> bool:
        """Its own word first: somebody else's server may be the one that answers on the port."""
        if self._pid_file.read_text().strip() != str(self.pid):
            return False
        try:
            return self.sql("SELECT 1") == "1"
        except ServerFailed:
            return False

    @property
    def url(self) -> str:
        return f"mysql://{SUPERUSER}:{self._password}@127.0.0.1:{self.port}/mysql"

    @property
    def version(self) -> str:
        return self.sql("SELECT version()").partition("-")[0]

    def sql(self, statement: str) -> str:
        """Run one statement as the user who may do everything."""
        return run_mariadb(self.url, statement)

    def create_database(self) -> str:
        """A new, empty database: its URL."""
        return create_database(self.url)

    @property
    def _data(self) -> Path:
        return self.home / "data"

    @property
    def _pid_file(self) -> Path:
        return self.home / "pid"


def run_mariadb(url: str, statement: str) -> str:
    """Run one statement and give what it answers, in plain lines."""
    there = urlsplit(url)
    command: list[str | Path] = [
        ensure("mariadb_client")["mariadb"],
        "--no-defaults",
        "--protocol=tcp",
        f"--host={there.hostname}",
        f"--port={there.port or 3306}",
        f"--user={there.username}",
        "--connect-timeout=1",
        "--batch",
        "--skip-column-names",
        f"--execute={statement}",
        there.path.lstrip("/"),
    ]
    environment = {**os.environ, "MYSQL_PWD": unquote(there.password or "")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise ServerFailed(f"{statement}: {done.stderr.strip()}")
    return done.stdout.strip()


def create_database(url: str) -> str:
    """A new, empty database beside the one of that URL: its URL."""
    name = f"dupeproof_{secrets.token_hex(6)}"
    run_mariadb(url, f"CREATE DATABASE {name}")
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def drop_database(url: str, database: str) -> None:
    name = urlsplit(database).path.lstrip("/").replace("`", "``")
    run_mariadb(url, f"DROP DATABASE IF EXISTS `{name}`")
