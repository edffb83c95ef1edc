"""What the fault tests share: the URL of each store, and worker processes that never outlive a test."""

import contextlib

import pytest

from support.stores import url_of
from support.workers import Nursery


@pytest.fixture
def url(request):
    return url_of(request.param, request)


@pytest.fixture(scope="session")
def nursery():
    with contextlib.closing(Nursery()) as nursery:
        yield nursery


@pytest.fixture
def worker(nursery):
    """Starts worker processes: `worker(url, lease="1s")`."""
    with contextlib.ExitStack() as stack:
        yield lambda url, **options: stack.enter_context(contextlib.closing(nursery.start(url, **options)))
