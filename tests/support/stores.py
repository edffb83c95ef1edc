"""Run one test on several stores: `@on("sqlite", "redis")` gives it a `url` for each."""

import uuid

import pytest

EVERY = ("memory", "sqlite", "redis", "redis_cluster", "postgres")
SHARED = ("sqlite", "redis", "redis_cluster", "postgres")
"""The ones several processes can use."""
DURABLE = ("sqlite", "redis", "postgres")
"""One of each kind that processes share."""
EMBEDDED = ("memory", "sqlite")


def on(*names: str) -> pytest.MarkDecorator:
    params = [
        pytest.param(name, marks=() if name in EMBEDDED else pytest.mark.server(name)) for name in names
    ]
    return pytest.mark.parametrize("url", params, indirect=True)


def url_of(name: str, request: pytest.FixtureRequest) -> str:
    if name == "memory":
        return f"memory://{uuid.uuid4().hex}"
    if name == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/dedup.db"
    return request.getfixturevalue(f"{name}_url")
