"""Servers as fixtures: one of each per run, shared; and private ones for tests that kill or pause them. Tools, too.

`redis_url`, `valkey_url`, `redis_cluster_url`, `redis_sentinel_url`: an empty keyspace for each test.
`postgres_url`, `mariadb_url`: an empty database for each test; `postgres_module_url`, `mariadb_module_url`: one for
each test file.
`rabbitmq_server`, `nats_server`, `kafka_server`: shared, and never emptied; each test uses queues of its own.
`redis_server`, `valkey_server`, `redis_cluster`, `redis_sentinel`, `postgres_server`, `mariadb_server`: the shared servers.
Do not kill these.
`own_redis(appendonly=True)`, `own_valkey()`, `own_redis_cluster(replicas=1)`, `own_redis_sentinel()`, `own_postgres()`,
`own_pgbouncer(url)`, `own_mariadb()`, `own_rabbitmq()`, `own_nats()`, `own_kafka()`, `own_chromium()`: start a server of the test's own,
gone when the test is over.
`faketime(hours)`: what stands before the command of a process that sees another time. `curl`, `promtool`, `wrk`: where these programs are.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from dupeproof_lab.servers import (
    Chromium,
    Given,
    Kafka,
    MariaDB,
    Nats,
    PgBouncer,
    Postgres,
    RabbitMQ,
    Redis,
    RedisCluster,
    RedisSentinel,
    Server,
    ServerFailed,
    ServerMissing,
    Valkey,
    install,
    keyspace,
    mariadb,
    postgres,
)
from support.clocks import shifted_by

from .selection import KEY

S = TypeVar("S", bound=Server)
DATABASES = {"postgres": postgres, "mariadb": mariadb}
"""Servers that give each test a database of its own."""
BROKERS = {"rabbitmq", "nats", "kafka"}
"""Servers on which each test has queues of its own."""


def shared(config: pytest.Config, kind: type[Server]) -> Iterator[Server]:
    """The server of this kind for the whole run: the one given, or one of our own."""
    selection = config.stash[KEY]
    name = kind.name
    url = selection.given(name)
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(kind() if url is None else Given(name, url))
            selection.versions[name] = server.version
        except ServerMissing as error:
            selection.leave_out(name, str(error))
        except (OSError, ServerFailed) as error:
            if url is None:
                raise
            selection.leave_out(name, f"{install.variable(name)}: {error}")
        # Every test begins by removing all keys, so somebody's data must not be there.
        if url is not None and name not in {*DATABASES, *BROKERS} and (keys := keyspace.count(url)) > 0:
            selection.leave_out(
                name, f"{install.variable(name)} holds {keys} keys; the tests want an empty one"
            )
        yield server


@pytest.fixture(scope="session")
def redis_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    yield from shared(pytestconfig, Redis)


@pytest.fixture(scope="session")
def valkey_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    yield from shared(pytestconfig, Valkey)


@pytest.fixture(scope="session")
def redis_cluster(pytestconfig: pytest.Config) -> Iterator[Server]:
    yield from shared(pytestconfig, RedisCluster)


@pytest.fixture(scope="session")
def redis_sentinel(pytestconfig: pytest.Config) -> Iterator[Server]:
    yield from shared(pytestconfig, RedisSentinel)


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    yield from shared(pytestconfig, Postgres)


def emptied(config: pytest.Config, server: Server) -> str:
    config.stash[KEY].declared(server.name)
    keyspace.empty(server.url)
    return server.url


@pytest.fixture
def redis_url(pytestconfig: pytest.Config, redis_server: Server) -> str:
    return emptied(pytestconfig, redis_server)


@pytest.fixture
def valkey_url(pytestconfig: pytest.Config, valkey_server: Server) -> str:
    return emptied(pytestconfig, valkey_server)


@pytest.fixture
def redis_cluster_url(pytestconfig: pytest.Config, redis_cluster: Server) -> str:
    return emptied(pytestconfig, redis_cluster)


@pytest.fixture
def redis_sentinel_url(pytestconfig: pytest.Config, redis_sentinel: Server) -> str:
    return emptied(pytestconfig, redis_sentinel)


@pytest.fixture(scope="session")
def mariadb_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    yield from shared(pytestconfig, MariaDB)


@pytest.fixture(scope="session")
def rabbitmq_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    yield from shared(pytestconfig, RabbitMQ)


@pytest.fixture(scope="session")
def nats_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    yield from shared(pytestconfig, Nats)


@pytest.fixture(scope="session")
def kafka_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    yield from shared(pytestconfig, Kafka)


def new_database(config: pytest.Config, server: Server) -> Iterator[str]:
    config.stash[KEY].declared(server.name)
    url = DATABASES[server.name].create_database(server.url)
    yield url
    DATABASES[server.name].drop_database(server.url, url)


@pytest.fixture
def postgres_url(pytestconfig: pytest.Config, postgres_server: Server) -> Iterator[str]:
    yield from new_database(pytestconfig, postgres_server)


@pytest.fixture(scope="module")
def postgres_module_url(pytestconfig: pytest.Config, postgres_server: Server) -> Iterator[str]:
    yield from new_database(pytestconfig, postgres_server)


@pytest.fixture
def mariadb_url(pytestconfig: pytest.Config, mariadb_server: Server) -> Iterator[str]:
    yield from new_database(pytestconfig, mariadb_server)


@pytest.fixture(scope="module")
def mariadb_module_url(pytestconfig: pytest.Config, mariadb_server: Server) -> Iterator[str]:
    yield from new_database(pytestconfig, mariadb_server)


def starter(config: pytest.Config, kind: type[S]) -> Iterator[Callable[..., S]]:
    """A function that starts servers of this kind, as many as the test likes, and stops them after it."""
    config.stash[KEY].own(kind.name)
    with contextlib.ExitStack() as stack:

        def start(*args: Any, **options: Any) -> S:
            server = kind(*args, **options)
            stack.enter_context(server)
            return server

        yield start


@pytest.fixture
def own_redis(pytestconfig: pytest.Config) -> Iterator[Callable[..., Redis]]:
    yield from starter(pytestconfig, Redis)


@pytest.fixture
def own_valkey(pytestconfig: pytest.Config) -> Iterator[Callable[..., Valkey]]:
    yield from starter(pytestconfig, Valkey)


@pytest.fixture
def own_redis_cluster(pytestconfig: pytest.Config) -> Iterator[Callable[..., RedisCluster]]:
    yield from starter(pytestconfig, RedisCluster)


@pytest.fixture
def own_redis_sentinel(pytestconfig: pytest.Config) -> Iterator[Callable[..., RedisSentinel]]:
    yield from starter(pytestconfig, RedisSentinel)


@pytest.fixture
def own_postgres(pytestconfig: pytest.Config) -> Iterator[Callable[..., Postgres]]:
    yield from starter(pytestconfig, Postgres)


@pytest.fixture
def own_pgbouncer(pytestconfig: pytest.Config) -> Iterator[Callable[..., PgBouncer]]:
    yield from starter(pytestconfig, PgBouncer)


@pytest.fixture
def own_mariadb(pytestconfig: pytest.Config) -> Iterator[Callable[..., MariaDB]]:
    yield from starter(pytestconfig, MariaDB)


@pytest.fixture
def own_rabbitmq(pytestconfig: pytest.Config) -> Iterator[Callable[..., RabbitMQ]]:
    yield from starter(pytestconfig, RabbitMQ)


@pytest.fixture
def own_nats(pytestconfig: pytest.Config) -> Iterator[Callable[..., Nats]]:
    yield from starter(pytestconfig, Nats)


@pytest.fixture
def own_kafka(pytestconfig: pytest.Config) -> Iterator[Callable[..., Kafka]]:
    yield from starter(pytestconfig, Kafka)


@pytest.fixture
def own_chromium(pytestconfig: pytest.Config) -> Iterator[Callable[..., Chromium]]:
    yield from starter(pytestconfig, Chromium)


def tool(config: pytest.Config, name: str) -> dict[str, Path]:
    """Where its programs are."""
    config.stash[KEY].own(name)
    return install.ensure(name)


@pytest.fixture
def faketime(pytestconfig: pytest.Config) -> Callable[[int], list[str]]:
    return shifted_by(tool(pytestconfig, "faketime")["libfaketime.so.1"])


@pytest.fixture
def curl(pytestconfig: pytest.Config) -> Path:
    return tool(pytestconfig, "curl")["curl"]


@pytest.fixture
def promtool(pytestconfig: pytest.Config) -> Path:
    return tool(pytestconfig, "promtool")["promtool"]


@pytest.fixture
def wrk(pytestconfig: pytest.Config) -> Path:
    return tool(pytestconfig, "wrk")["wrk"]
