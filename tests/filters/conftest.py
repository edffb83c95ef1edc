"""`url`: the store a test is run on by `@on(...)`."""

import pytest

from support.stores import url_of


@pytest.fixture
def url(request):
    return url_of(request.param, request)
