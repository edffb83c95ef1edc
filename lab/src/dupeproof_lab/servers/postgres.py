"""PostgreSQL: one server with its defaults, a superuser with a password, and fresh databases on request."""

import contextlib
import os
import pwd
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from . import process
from .base import ProcessServer, ServerFailed
from .install import ensure

SUPERUSER = "dupeproof"


class Postgres(ProcessServer):
    """Durable as a real one: fsync is on. `settings` are lines of postgresql.conf: `{"lock_timeout": "1s"}`."""

    name = "postgres"
    end_signal = signal.SIGINT  # "fast": SIGTERM would wait for the clients to leave
    orphan_signal = signal.SIGQUIT  # "immediate": ends all its processes and frees its shared memory

    def __init__(
        self,
        *,
        port: int | None = None,
        settings: Mapping[str, str | int] | None = None,
        search: Sequence[str] | None = None,
    ) -> None:
        super().__init__(port=port, search=search)
        self._password = secrets.token_hex(8)
        self._settings: dict[str, str | int] = {
            "max_connections": 200,
            "shared_preload_libraries": "pg_stat_statements",
            # In the data folder, not in /dev/shm: a killed server leaves nothing behind that outlives its folder.
            "dynamic_shared_memory_type": "mmap",
        }
        self._settings.update(settings or {})

    @property
    def user(self) -> int | None:
        """PostgreSQL refuses to run as root; the package brings a user for it."""
        if os.geteuid() != 0:
            return None
        with contextlib.suppress(KeyError):
            return pwd.getpwnam("postgres").pw_uid
        return pwd.getpwnam("nobody").pw_uid

    def prepare(self) -> None:
        secret = self.home / "password"
        secret.write_text(self._password)
        if self.user is not None:
            os.chown(secret, self.user, -1)
        # The local socket is trusted: its folder is closed to everyone else. Syncing what initdb wrote protects
        # nothing here: the server has yet to start.
        command: list[str | Path] = [
            self.programs()["initdb"],
            "-D",
            self._data,
            "-U",
            SUPERUSER,
            f"--pwfile={secret}",
            "--no-sync",
        ]
        command += ["--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        with self.log.open("ab") as log:
            running = process.spawn(
                command, cwd=self.home, log=log, user=self.user, end_signal=signal.SIGTERM
            )
        process.forget(running)
        if running.returncode != 0:
            raise ServerFailed(f"initdb failed\n{self.tail()}")

    def command(self) -> Sequence[str | Path]:
        fixed = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.home}
        settings = {**fixed, **self._settings}
        return [
            self.programs()["postgres"],
            "-D",
            self._data,
            *(word for name, value in settings.items() for word in ("-c", f"{name}={value}")),
        ]

    def ready(self) -> bool:
        """Its own word first: somebody else's server may be the one that answers on the port."""
        lines = (self._data / "postmaster.pid").read_text().split()
        if lines[:1] != [str(self.pid)] or lines[-1] != "ready":
            return False
        command = [
            str(self.programs()["pg_isready"]),
            "-q",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-t",
            "1",
        ]
        return subprocess.run(command, check=False).returncode == 0  # noqa: S603

    def discard(self) -> None:
        """A server that was killed leaves its System V segment, which its own next start would have removed."""
        with contextlib.suppress(OSError, IndexError):
            segment = (self._data / "postmaster.pid").read_text().splitlines()[6].split()[1]
            subprocess.run(["ipcrm", "-m", segment], capture_output=True, check=False)  # noqa: S603, S607

    @property
    def url(self) -> str:
        return f"postgresql://{SUPERUSER}:{self._password}@127.0.0.1:{self.port}/postgres"

    @property
    def version(self) -> str:
        return self.sql("SHOW server_version").split()[0]

    def sql(self, statement: str) -> str:
        """Run one statement as the superuser."""
        return run_sql(self.url, statement)

    def create_database(self) -> str:
        """A new, empty database: its URL."""
        return create_database(self.url)

    def drop_database(self, url: str) -> None:
        drop_database(self.url, url)

    def create_role(
        self, name: str, *, password: str, attributes: str = "LOGIN", database: str | None = None
    ) -> str:
        """A role that is no superuser: its URL, for the database of that URL."""
        self.sql(f"CREATE ROLE {identifier(name)} {attributes} PASSWORD {literal(password)}")
        parts = urlsplit(self.url if database is None else database)
        return urlunsplit(parts._replace(netloc=f"{quote(name)}:{quote(password)}@127.0.0.1:{self.port}"))

    @property
    def _data(self) -> Path:
        return self.home / "data"


def run_sql(url: str, statement: str) -> str:
    """Run one statement and give what it answers, unaligned."""
    command: list[str | Path] = [
        ensure("postgres_client")["psql"],
        "--no-psqlrc",
        "-Atq",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        url,
        "-c",
        statement,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise ServerFailed(f"{statement}: {done.stderr.strip()}")
    return done.stdout.strip()


def create_database(url: str) -> str:
    """A new, empty database beside the one of that URL: its URL."""
    name = f"dupeproof_{secrets.token_hex(6)}"
    run_sql(url, f"CREATE DATABASE {name} TEMPLATE template0")
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def drop_database(url: str, database: str) -> None:
    """Remove a database, whoever is still connected to it."""
    name = identifier(urlsplit(database).path.lstrip("/"))
    run_sql(url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
