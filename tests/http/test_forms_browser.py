"""In Chromium: the form of the example is clicked twice, sent again after going back, from two tabs, and is one order."""

import json
import os
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from http_examples import started
from websockets.sync.client import connect

from dupeproof import OneTimeTokens
from dupeproof_lab.servers.base import wait_until
from support.browser import DESKTOP, PHONE, Tab

FOLDER = Path(os.environ.get("DOUBLE_CLICK_SCREENSHOTS", Path(__file__).parents[2] / "out" / "double_click"))
"""Where the pictures go; each run replaces those of the last."""
SECRET = "a secret of the tests, long enough"
TOKEN = "document.querySelector('[name=dedup_token]')"


class Shop:
    def __init__(self, url, database, new_tab):
        self.url = url
        self.new_tab = new_tab
        self._database = database

    def form(self):
        """In a tab of its own."""
        tab = self.new_tab()
        tab.go(self.url)
        return tab

    def double_click(self, tab, button):
        """The second click comes while the first is worked on: sooner, and the browser may send nothing of the first."""
        token, place = tab.ask(f"{TOKEN}.value"), tab.place(button)
        tab.press(place)
        with OneTimeTokens(f"sqlite:///{self._database}", secret=SECRET) as tokens:
            wait_until(lambda: tokens.status(token) == "used", what="the first click to arrive")
        tab.press(place, count=2)

    @property
    def orders(self):
        with closing(sqlite3.connect(self._database)) as connection:
            return [item for (item,) in connection.execute("SELECT item FROM orders ORDER BY rowid")]


@pytest.fixture(params=["flask", "fastapi", "django"])
def shop(request, own_chromium, tmp_path):
    browser = own_chromium()
    example = started(f"double_click/on_{request.param}.py", tmp_path, SECRET=SECRET, SECONDS_TO_PAY="2")
    with example as url, ExitStack() as sockets:

        def new_tab():
            return Tab(sockets.enter_context(connect(browser.new_page(), max_size=None)))

        yield Shop(url, tmp_path / "double_click.db", new_tab)


@pytest.mark.parametrize("button", ["#send", "#fetch"])
def test_a_double_click_is_one_order(shop, button):
    tab = shop.form()
    _pictures(tab, "form")
    tab.type("#item", "A double espresso")
    shop.double_click(tab, button)
    tab.until_it_says("on its way")
    tab.screenshot(FOLDER / "waiting.png")
    tab.until_it_says("Your form came more than once")
    _pictures(tab, "ordered")
    assert shop.orders == ["A double espresso"]
    tab.go(shop.url)
    assert tab.ask("[...document.querySelectorAll('li')].map(each => each.innerText)") == shop.orders
    assert tab.complaints == []


def test_without_scripts_too(shop):
    tab = shop.new_tab()
    tab.without_scripts()
    tab.go(shop.url)
    assert tab.ask("document.querySelector('#fetch').hidden")
    shop.double_click(tab, "#send")
    tab.until_it_says("Your form came more than once")
    assert shop.orders == ["A pot of tea"]


def test_who_goes_back_and_sends_again_sees_the_order(shop):
    tab = shop.form()
    tab.click("#send")
    page = tab.ask("location.pathname")
    tab.back()
    tab.type("#item", "Something else")
    tab.click("#send")
    assert tab.ask("location.pathname") == page
    assert "A pot of tea" in tab.text()
    assert "Your form came more than once" in tab.text()
    assert shop.orders == ["A pot of tea"]


def test_two_tabs_are_two_orders_but_a_copied_tab_is_none(shop):
    first, second, copy = (shop.form() for _ in range(3))
    copy.ask(f"{TOKEN}.value = {json.dumps(second.ask(TOKEN + '.value'))}")
    for tab in (first, second, copy):
        tab.press(tab.place("#send"))
    for tab in (first, second, copy):
        tab.until_it_says("Thank you")
    assert len(shop.orders) == 2


def test_a_form_of_somebody_else_is_refused_and_stays_good(shop):
    tab = shop.form()
    [cookie] = tab.do("Network.getCookies")["cookies"]
    tab.do("Network.clearBrowserCookies")
    tab.press(tab.place("#fetch"))
    tab.wait_for("!document.querySelector('#refused').hidden")
    tab.click("#send")
    assert "This form was not taken" in tab.text()
    _pictures(tab, "refused")
    assert shop.orders == []
    tab.do("Network.setCookie", url=shop.url, name=cookie["name"], value=cookie["value"])
    tab.back()
    tab.click("#send")
    assert shop.orders == ["A pot of tea"]


def _pictures(tab, page):
    for device, scheme in ((DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")):
        tab.size(device)
        tab.colours(scheme)
        kind = "phone" if device is PHONE else "screen"
        assert tab.ask("document.documentElement.scrollWidth <= innerWidth"), (
            f"{page} is too wide for a {kind}"
        )
        tab.screenshot(FOLDER / f"{page}-{kind}-{scheme}.png")
    tab.size(DESKTOP)
    tab.colours("light")
