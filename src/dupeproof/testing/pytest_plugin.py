"""Throw-away databases as pytest fixtures. In your conftest.py: `pytest_plugins = ["dupeproof.testing.pytest_plugin"]`.

`dupeproof_postgres`: the URL of an empty database for each test. `dupeproof_redis`: the URL of an empty Redis for each test.

POSTGRES_URL and REDIS_URL name servers you have. A database is made there for each test and dropped after it; a Redis must be
empty when the tests begin, and is emptied after each of them. Without these variables dupeproof-lab, where it is installed,
starts one server of each for a run that needs it, on a private port, and ends it with the run. Packages of the distribution
are installed only with `--install-servers`.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_NEEDS_SERVER = "this needs a server: give {variable}, or let one be started: pip install dupeproof-lab"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("dupeproof").addoption(
        "--install-servers",
        action="store_true",
        help="install servers that are missing, from the distribution's packages",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--install-servers"):
        os.environ["INSTALL_SERVERS"] = "yes"  # for the lab, also in other processes


@contextmanager
def _started(kind: str, variable: str) -> Iterator[Any]:
    """A server of the lab."""
    try:
        from dupeproof_lab import servers  # noqa: PLC0415 - a distribution that need not be there
    except ModuleNotFoundError:
        pytest.fail(_NEEDS_SERVER.format(variable=variable), pytrace=False)
    try:
        with getattr(servers, kind)() as server:
            yield server
    except servers.ServerMissing as exc:
        pytest.fail(f"{exc} Or run pytest with --install-servers.", pytrace=False)


@pytest.fixture(scope="session")
def dupeproof_postgres_server() -> Iterator[str]:
    """The URL of a server on which databases can be made."""
    given = os.environ.get("POSTGRES_URL")
    if given:
        yield given
        return
    with _started("Postgres", "POSTGRES_URL") as server:
        yield server.url


def _database_url(server: str, name: str) -> str:
    """The URL of another database on that server. An option that names one would win over the path."""
    scheme, separator, rest = server.partition("://")
    if not separator:
        pytest.fail("POSTGRES_URL must be a URL: postgresql://user@host/database", pytrace=False)
    place, _, query = rest.partition("?")
    options = [
        pair for pair in query.split("&") if pair and pair.partition("=")[0] not in ("dbname", "service")
    ]
    host = place.partition("/")[0]
    return f"{scheme}://{host}/{name}" + (f"?{'&'.join(options)}" if options else "")


@pytest.fixture
def dupeproof_postgres(dupeproof_postgres_server: str) -> Iterator[str]:
    import psycopg  # noqa: PLC0415 - an extra

    name = f"dupeproof_{secrets.token_hex(6)}"
    url = _database_url(dupeproof_postgres_server, name)
    with psycopg.connect(dupeproof_postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT current_database()").fetchone()
    assert found == (name,), f"POSTGRES_URL leads to {found} and not to a database of the test's own"
    yield url
    with psycopg.connect(dupeproof_postgres_server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())


@pytest.fixture(scope="session")
def dupeproof_redis_server() -> Iterator[str]:
    """The URL of a Redis that holds nothing."""
    import redis  # noqa: PLC0415 - an extra

    given = os.environ.get("REDIS_URL")
    if given and os.environ.get("PYTEST_XDIST_WORKER"):
        pytest.fail(
            "REDIS_URL is one Redis, which tests in several processes would empty for each other",
            pytrace=False,
        )
    if given:
        with redis.Redis.from_url(given) as client:
            keys = client.dbsize()
        if keys:
            pytest.fail(f"REDIS_URL holds {keys} keys; the tests want a Redis they may empty", pytrace=False)
        yield given
        return
    with _started("Redis", "REDIS_URL") as server:
        yield server.url


@pytest.fixture
def dupeproof_redis(dupeproof_redis_server: str) -> Iterator[str]:
    import redis  # noqa: PLC0415 - an extra

    yield dupeproof_redis_server
    with redis.Redis.from_url(dupeproof_redis_server) as client:
        client.flushdb()
