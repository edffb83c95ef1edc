"""`any_url`: the test runs once on each kind of store, by its URL; `durable_url` leaves memory out."""

from uuid import uuid4

import psycopg
import pytest

SERVERS = {
    "redis": "redis_url",
    "redis_cluster": "redis_cluster_url",
    "postgres": "emptied_postgres_url",
}
EMBEDDED = ["memory", "sqlite"]


_EMPTY = """
    DO $$ BEGIN
        IF to_regclass('dupeproof_records') IS NOT NULL THEN TRUNCATE dupeproof_records, dupeproof_marks, dupeproof_sequences; END IF;
    END $$
"""


@pytest.fixture
def emptied_postgres_url(postgres_module_url: str) -> str:
    """An empty store without the half second a new database takes."""
    with psycopg.connect(postgres_module_url, autocommit=True) as connection:
        connection.execute(_EMPTY)
    return postgres_module_url


def _params(names):
    return [
        pytest.param(name, marks=[pytest.mark.server(name)] if name in SERVERS else [], id=name)
        for name in names
    ]


def _url(request: pytest.FixtureRequest) -> str:
    if request.param in SERVERS:
        return request.getfixturevalue(SERVERS[request.param])
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/dedup.db"
    return f"memory://{uuid4()}"


@pytest.fixture(params=_params([*EMBEDDED, *SERVERS]))
def any_url(request: pytest.FixtureRequest) -> str:
    return _url(request)


@pytest.fixture(params=_params(["sqlite", *SERVERS]))
def durable_url(request: pytest.FixtureRequest) -> str:
    return _url(request)
