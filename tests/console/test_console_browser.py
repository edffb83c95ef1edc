"""In Chromium: every page, every action, on a screen and a phone, light and dark, without a complaint of the browser."""

import os
from pathlib import Path

import pytest
from console_data import EVIL, TOKEN
from websockets.sync.client import connect

from support.browser import DESKTOP, PHONE, Tab

PAGES = ("overview", "keys", "windows", "outbox", "purge", "audit")
FOLDER = Path(os.environ.get("CONSOLE_SCREENSHOTS", Path(__file__).parents[2] / "out" / "console"))
"""Where the pictures go; each run replaces those of the last."""
SHADE = (
    "getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
)
"""Of the page: from nothing for black to 765 for white."""


@pytest.fixture
def tab(own_chromium):
    with connect(own_chromium().new_page(), max_size=None) as socket:
        yield Tab(socket)


def test_a_person_sees_every_page_and_mends_what_is_broken(tab, served, url):
    address, _ = served(url, CONSOLE_RATE="200")
    tab.go(address)
    tab.wait_for(
        "document.body.innerText.includes('payments')"
    )  # the page renews itself, and shows what arrives
    for scheme, brightest, darkest in (("light", 765, 600), ("dark", 150, 0)):
        tab.colours(scheme)
        assert darkest <= tab.ask(SHADE) <= brightest
    _sign_in(tab)
    for page in PAGES:
        tab.click(f"nav a:nth-child({PAGES.index(page) + 1})")
        if page == "keys":
            _find(tab, "done")
        for device, scheme in ((DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")):
            tab.size(device)
            tab.colours(scheme)
            kind = "phone" if device is PHONE else "screen"
            tab.screenshot(FOLDER / f"{page}-{kind}-{scheme}.png")
            assert tab.ask("document.documentElement.scrollWidth <= innerWidth"), (
                f"{page} is too wide for a {kind}"
            )
        tab.size(DESKTOP)
        tab.colours("light")
    _change_keys(tab)
    _change_messages(tab)
    assert tab.complaints == []


def test_markup_in_keys_topics_and_errors_is_never_run(tab, served, url):
    address, _ = served(url)
    tab.go(f"{address}outbox")
    assert "<script>" in tab.text()  # shown as it was written
    tab.click("nav a:nth-child(2)")
    _find(tab, EVIL)
    assert "done" in tab.text()
    assert tab.ask("document.title") == "Keys · dupeproof"
    assert tab.complaints == []
    # And if some markup got through after all, the browser would not run it.
    tab.ask("document.body.insertAdjacentHTML('beforeend', `<img src=x onerror=\"document.title='owned'\">`)")
    tab.wait_for("document.images[0].complete")
    assert tab.ask("document.title") == "Keys · dupeproof"
    assert any("Content Security Policy" in str(each) for each in tab.complaints)


def _sign_in(tab):
    tab.click("a.badge")
    tab.type("input[name=token]", TOKEN)
    tab.click("main button")


def _find(tab, key):
    tab.type("input[name=key]", key)
    tab.click(".search button")


def _change_keys(tab):
    for key, action in (("held", "release"), ("failed", "resolve"), ("done", "forget")):
        tab.click("nav a:nth-child(2)")
        _find(tab, key)
        tab.click(f"button[value={action}]")
        tab.screenshot(FOLDER / f"confirm-{action}.png")
        tab.click("button.danger")
        assert f"{action.title()}: done" in tab.text()
    tab.screenshot(FOLDER / "done.png")


def _change_messages(tab):
    tab.click("nav a:nth-child(4)")
    tab.click("button[value=retry]")
    tab.click("button.danger")
    assert "Retry: done" in tab.text()
    tab.click("nav a:nth-child(6)")
    assert all(action in tab.text() for action in ("release", "resolve", "forget", "retry"))
