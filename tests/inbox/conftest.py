"""`place`: a database and a way to be connected to it, chosen by `inbox_places.kinds`."""

import pytest
from inbox_places import place_of


@pytest.fixture
def place(request):
    return place_of(request.param, request)
