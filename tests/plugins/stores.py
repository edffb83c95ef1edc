"""`any_url`: the test runs once on each kind of store, by its URL; `durable_url` leaves memory out."""

from uuid import uuid4

import pytest

SERVERS = {
    "redis": "redis_url",
    "redis_cluster": "redis_cluster_url",
    "postgres": "postgres_url",
}
EMBEDDED = ["memory", "sqlite"]


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
