"""A server somebody else runs: an address, and no control over the process."""

from collections.abc import Callable
from typing import NoReturn

from .base import Server
from .install import variable
from .kafka import kafka_version
from .keyspace import one_master
from .mariadb import run_mariadb
from .nats import nats_version
from .postgres import run_sql
from .rabbitmq import rabbitmq_version
from .redis import redis_version


def _redis(url: str) -> str:
    with one_master(url) as resp:
        return redis_version(resp)


_VERSIONS: dict[str, Callable[[str], str]] = {
    "postgres": lambda url: run_sql(url, "SHOW server_version").split()[0],
    "mariadb": lambda url: run_mariadb(url, "SELECT version()").partition("-")[0],
    "rabbitmq": rabbitmq_version,
    "nats": nats_version,
    "kafka": kafka_version,
}


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
        return _VERSIONS.get(self.name, _redis)(self._url)

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
