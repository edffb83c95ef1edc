"""Clients of the caller's that can be given instead of a URL. They are known by the names of their types, so no driver
is imported, and what cannot be used is refused when a guard is built, with what to do.
"""

from typing import Any, Literal, Protocol

from msgspec import Struct

from dupeproof.errors import ConfigError


class RedisClient(Protocol):
    """`redis.Redis` or `RedisCluster`; those of `redis.asyncio` for the async classes."""

    def execute_command(self, *args: Any, **options: Any) -> Any: ...


class ConnectionPool(Protocol):
    """`psycopg_pool.ConnectionPool`; `AsyncConnectionPool` for the async classes."""

    def getconn(self, timeout: float | None = None) -> Any: ...

    def putconn(self, conn: Any) -> Any: ...


class Engine(Protocol):
    """SQLAlchemy's `Engine` for PostgreSQL; `AsyncEngine` for the async classes."""

    @property
    def dialect(self) -> Any: ...

    def raw_connection(self) -> Any: ...


class AsyncpgPool(Protocol):
    """`asyncpg.Pool`, for the async classes."""

    def acquire(self, *, timeout: float | None = None) -> Any: ...

    def release(self, connection: Any, *, timeout: float | None = None) -> Any: ...


StoreClient = RedisClient | ConnectionPool | Engine | AsyncpgPool


class Kind(Struct, frozen=True):
    name: str
    is_async: bool
    library: Literal["redis", "psycopg_pool", "sqlalchemy", "asyncpg"]
    other: str
    """Its counterpart, for the classes that cannot use this one."""
    is_cluster: bool = False


_KINDS = {
    "redis.client.Redis": Kind("redis.Redis", False, "redis", "redis.asyncio.Redis"),
    "redis.asyncio.client.Redis": Kind("redis.asyncio.Redis", True, "redis", "redis.Redis"),
    "redis.cluster.RedisCluster": Kind(
        "redis.RedisCluster", False, "redis", "redis.asyncio.RedisCluster", is_cluster=True
    ),
    "redis.asyncio.cluster.RedisCluster": Kind(
        "redis.asyncio.RedisCluster", True, "redis", "redis.RedisCluster", is_cluster=True
    ),
    "psycopg_pool.pool.ConnectionPool": Kind(
        "psycopg_pool.ConnectionPool", False, "psycopg_pool", "psycopg_pool.AsyncConnectionPool"
    ),
    "psycopg_pool.pool_async.AsyncConnectionPool": Kind(
        "psycopg_pool.AsyncConnectionPool", True, "psycopg_pool", "psycopg_pool.ConnectionPool"
    ),
    "asyncpg.pool.Pool": Kind("asyncpg.Pool", True, "asyncpg", "psycopg_pool.ConnectionPool"),
    "sqlalchemy.engine.base.Engine": Kind(
        "SQLAlchemy's Engine", False, "sqlalchemy", "an AsyncEngine (create_async_engine)"
    ),
    "sqlalchemy.ext.asyncio.engine.AsyncEngine": Kind(
        "SQLAlchemy's AsyncEngine", True, "sqlalchemy", "an Engine (create_engine)"
    ),
}

_ONE_CONNECTION = (
    "one connection serves one caller at a time; give the pool or engine it comes from, or a URL"
)
_ENGINE = "give the engine it is bound to"
_REFUSED = {
    "redis.client.Pipeline": "a pipeline holds its commands back; give the client it comes from",
    "redis.asyncio.client.Pipeline": "a pipeline holds its commands back; give the client it comes from",
    "redis.connection.ConnectionPool": "write redis.Redis(connection_pool=pool)",
    "redis.asyncio.connection.ConnectionPool": "write redis.asyncio.Redis(connection_pool=pool)",
    "redis.sentinel.Sentinel": "write sentinel.master_for(name), which gives a client",
    "redis.asyncio.sentinel.Sentinel": "write sentinel.master_for(name), which gives a client",
    "valkey.client.Valkey": "give a redis:// URL or a client of redis-py; both speak to Valkey",
    "valkey.asyncio.client.Valkey": "give a redis:// URL or a client of redis-py; both speak to Valkey",
    "psycopg.Connection": _ONE_CONNECTION,
    "psycopg.AsyncConnection": _ONE_CONNECTION,
    "psycopg2.extensions.connection": _ONE_CONNECTION,
    "asyncpg.connection.Connection": _ONE_CONNECTION,
    "sqlalchemy.engine.base.Connection": _ONE_CONNECTION,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": _ONE_CONNECTION,
    "sqlalchemy.orm.session.Session": _ENGINE,
    "sqlalchemy.orm.session.sessionmaker": _ENGINE,
    "sqlalchemy.ext.asyncio.session.AsyncSession": _ENGINE,
    "sqlalchemy.ext.asyncio.session.async_sessionmaker": _ENGINE,
}


def kind_of(client: object) -> Kind | None:
    """What kind of client this is; None for what is none, such as a store."""
    for name in _names(client):
        if (advice := _REFUSED.get(name)) is not None:
            raise ConfigError(f"a {type(client).__qualname__} cannot be used as a store: {advice}")
        if (kind := _KINDS.get(name)) is not None:
            return kind
    return None


def checked_kind(client: object, *, is_async: bool) -> Kind | None:
    """The same, refused where the guard is of the other kind."""
    kind = kind_of(client)
    if kind is not None and kind.is_async is not is_async:
        mine, theirs = ("async", "sync") if is_async else ("sync", "async")
        raise ConfigError(
            f"{kind.name} is {theirs}, and this class is {mine}; give {kind.other} here, "
            f"or use the {theirs} class"
        )
    return kind


def _names(client: object) -> list[str]:
    return [f"{each.__module__}.{each.__qualname__}" for each in type(client).__mro__]
