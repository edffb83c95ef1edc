"""What a PostgreSQL URL points at: our own options taken out, the rest left to the driver."""

from urllib.parse import urlencode, urlunsplit

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict

from dupeproof.errors import ConfigError
from dupeproof.stores.urls import StoreURL

_OURS = ("timeout", "pool")


class Target(Struct, frozen=True):
    conninfo: str
    shown: str
    timeout: float
    pool: int
    """Connections at most."""


def target(url: StoreURL) -> Target:
    query = urlencode({name: value for name, value in url.options.items() if name not in _OURS})
    conninfo = urlunsplit(url.parts._replace(scheme="postgresql", query=query))
    try:
        ports = str(conninfo_to_dict(conninfo).get("port") or "5432")
    except psycopg.ProgrammingError:
        ports = ""  # the driver's text is not passed on: it may quote the password
    if not all(port.isascii() and port.isdigit() for port in ports.split(",")):
        raise ConfigError(
            f"{url} is not a PostgreSQL URL; write postgresql://user:password@host:5432/database?timeout=5s&pool=10"
        )
    pool = url.options.get("pool", "10")
    if not (pool.isascii() and pool.isdigit()) or int(pool) < 1:
        raise ConfigError(f"pool must be a number of connections, at least 1; got {pool!r}")
    return Target(conninfo, str(url), url.timeout, int(pool))
