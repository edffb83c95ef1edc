"""`place`: a database and a way to be connected to it, chosen by `places.kinds`."""

import pytest

from support.places import place_of


@pytest.fixture
def place(request):
    return place_of(request.param, request)
