"""Shops on every kind of server and store, started when the first test of a file wants them, ended after its last."""

import contextlib

import pytest
from http_servers import STORES, Shop


@pytest.fixture(scope="module")
def running():
    shops = {}
    yield shops
    with contextlib.ExitStack() as stack:
        for shop in shops.values():
            stack.callback(shop.kill)


@pytest.fixture
def shop(request, running, tmp_path_factory):
    if request.param not in running:
        server, store, around = request.param
        folder = tmp_path_factory.mktemp("shop")
        shop = Shop(folder, server, STORES[store](request, folder), SHOP_AROUND=around)
        shop.start()
        running[request.param] = shop
    return running[request.param]


@pytest.fixture
def url(shop):
    return shop.url
