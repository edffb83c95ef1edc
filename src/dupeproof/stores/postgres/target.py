"""What a PostgreSQL URL points at: our own options taken out, the rest left to the driver."""

import time

import psycopg
from msgspec import Struct

from dupeproof.sql import hosts
from dupeproof.sql.postgres import Hosts, parameters, pool_size
from dupeproof.stores.urls import StoreURL

_LONGEST_MARGIN = 0.5


class Limits(Struct, frozen=True):
    shown: str
    """What it is called in errors."""
    timeout: float

    @property
    def margin(self) -> float:
        """Seconds by which the server gives up before its caller does, so that its answer still gets there."""
        return min(self.timeout / 10, _LONGEST_MARGIN)


class Target(Limits, frozen=True, kw_only=True):
    hosts: Hosts
    pool: int
    """Connections at most."""


def target(url: StoreURL) -> Target:
    shown = str(url)
    found = parameters(f"postgresql://{url.parts.netloc}{url.parts.path}?{url.parts.query}", shown)
    return Target(shown, url.timeout, hosts=Hosts(found, shown), pool=pool_size(f"?{url.parts.query}"))


def plain_connection(wanted: Target) -> psycopg.Connection:
    """One of the driver's own, for who wants to look around: each statement commits by itself, and none is bounded."""

    def connect(conninfo: str, _: float) -> psycopg.Connection:
        return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)

    return hosts.connected(wanted.hosts, time.monotonic() + wanted.timeout, connect)[0]
