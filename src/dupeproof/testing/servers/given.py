"""A server somebody else runs: an address, and no control over the process."""

from typing import NoReturn

from .base import Server
from .install import variable
from .keyspace import one_master
from .mariadb import run_mariadb
from .postgres import run_sql
from .redis import redis_version


class Given(Server):
    """Stands where a server of our own would; refuses to be stopped, killed or paused."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    @property
    def version(self) -> str:
        if self.name == "postgres":
            return run_sql(self._url, "SHOW server_version").split()[0]
        if self.name == "mariadb":
            return run_mariadb(self._url, "SELECT version()").partition("-")[0]
        with one_master(self._url) as resp:
            return redis_version(resp)

    def start(self) -> None:
        """It runs already."""

    def stop(self) -> None:
        """It runs on."""

    def _refuse(self) -> NoReturn:
        raise RuntimeError(
            f"{variable(self.name)} points at this server: it is not ours to kill, restart or pause"
        )

    def kill(self) -> None:
        self._refuse()

    def restart(self) -> None:
        self._refuse()

    def pause(self) -> None:
        self._refuse()

    def resume(self) -> None:
        self._refuse()
