"""Throw-away servers as pytest fixtures. In your conftest.py: `pytest_plugins = ["dupeproof.testing.pytest_plugin"]`.

`dupeproof_postgres`: the URL of an empty database for each test. `dupeproof_redis`: the URL of an empty Redis for each test.
One server of each is started for a run that needs it, on a private port, and ended with it.
"""

from collections.abc import Iterator

import pytest

from dupeproof.testing.servers import Postgres, Redis, keyspace


@pytest.fixture(scope="session")
def dupeproof_postgres_server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def dupeproof_postgres(dupeproof_postgres_server: Postgres) -> Iterator[str]:
    url = dupeproof_postgres_server.create_database()
    yield url
    dupeproof_postgres_server.drop_database(url)


@pytest.fixture(scope="session")
def dupeproof_redis_server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def dupeproof_redis(dupeproof_redis_server: Redis) -> str:
    keyspace.empty(dupeproof_redis_server.url)
    return dupeproof_redis_server.url
