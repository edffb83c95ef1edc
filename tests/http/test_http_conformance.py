"""The conformance suite on every kind of server and store."""

import pytest
from http_servers import DECORATED, on

from dupeproof.testing.http import HttpConformance, HttpResponseConformance, HttpSlowConformance

AROUND = ("outside", "inside")


class OnAShop:
    lease = 0.6

    @pytest.fixture
    def url(self, shop):
        return shop.url


@on()
class TestKeys(OnAShop, HttpConformance):
    pass


@on()
class TestSlow(OnAShop, HttpSlowConformance):
    pass


@on()
class TestResponses(OnAShop, HttpResponseConformance):
    pass


@on(DECORATED, ["memory"])
class TestKeysOfDecoratedViews(OnAShop, HttpConformance):
    pass


@on(DECORATED, ["memory"])
class TestSlowDecoratedViews(OnAShop, HttpSlowConformance):
    pass


@on(DECORATED, ["memory"])
class TestResponsesOfDecoratedViews(OnAShop, HttpResponseConformance):
    pass


@on(["uvicorn-starlette"], ["memory"], around=AROUND)
class TestKeysWithAnotherMiddleware(OnAShop, HttpConformance):
    pass


@on(["uvicorn-starlette"], ["memory"], around=AROUND)
class TestSlowWithAnotherMiddleware(OnAShop, HttpSlowConformance):
    pass


@on(["uvicorn-starlette"], ["memory"], around=AROUND)
class TestResponsesWithAnotherMiddleware(OnAShop, HttpResponseConformance):
    pass
