"""In Chromium: every page, every action, on a screen and a phone, light and dark, without a complaint of the browser."""

import os
from pathlib import Path

import pytest
from console_data import EVIL, TOKEN, charges_in_doubt
from websockets.sync.client import connect

from dupeproof import Once
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


def test_a_person_sees_every_page_on_every_device(tab, served, url):
    address, _ = served(url, CONSOLE_RATE="200")
    charges_in_doubt(url)
    tab.go(address)
    tab.wait_for(
        "document.body.innerText.includes('payments')"
    )  # the page renews itself, and shows what arrives
    tab.wait_for("document.body.innerText.includes('new keys a second')")
    for scheme, brightest, darkest in (("light", 765, 600), ("dark", 150, 0)):
        tab.colours(scheme)
        assert darkest <= tab.ask(SHADE) <= brightest
    _sign_in(tab)
    for number, page in enumerate(PAGES, start=1):
        tab.click(f"nav a:nth-child({number})")
        _picture(tab, page)
    tab.click("nav a:nth-child(2)")
    tab.click("tr:nth-child(2) td.main a")
    _picture(tab, "key")
    assert tab.complaints == []


def test_from_the_overview_to_a_settled_key_in_four_clicks(tab, served, url):
    charges_in_doubt(url)
    address, _ = served(url)
    tab.go(address)
    _sign_in(tab)
    tab.wait_for("document.querySelector('.needs a[href*=held]') !== null")
    _settle_the_first(tab, lambda: tab.type("input[name=result]", '{"receipt": 17}'), "button[value=resolve]")
    assert "1 of 1 key resolved" in tab.text()
    tab.click("td.main a")
    assert "No caller has been given the result yet, so it can be corrected" in tab.text()
    with Once(url) as once:
        assert once.get("held").result == {"receipt": 17}
    assert tab.complaints == []


def test_the_lookup_settles_all_that_match_and_the_preview_says_how(tab, served, url):
    charges_in_doubt(url)
    address, _ = served(url, CONSOLE_LOOKUP="yes")
    tab.go(f"{address}keys?state=held&namespace=shop")
    tab.click("main section p a")
    tab.type("input[name=token]", TOKEN)
    tab.type("input[name=name]", "ann")
    tab.click("main button")
    tab.press(tab.place("input[data-all]"))
    tab.wait_for("document.querySelectorAll('input[name=digest]:checked').length === 4")
    _picture(tab, "chosen")
    tab.click("button[value=settle]")
    _picture(tab, "confirm-settle")
    assert "free to run: the lookup says it was not done" in tab.text()
    assert "stays held: the lookup failed with ConnectionError" in tab.text()
    tab.click("button.danger")
    _picture(tab, "changed")
    assert "settled: done, with what the lookup said" in tab.text()
    with Once(url, namespace="shop") as once:
        assert once.get("shop.pay:order-0").result == {"receipt": 17}
        assert [once.get(f"shop.pay:order-{n}").state for n in (2, 3)] == ["held", "held"]
    assert len(tab.complaints) == 0


def test_it_all_works_without_scripts(tab, served, url):
    charges_in_doubt(url, 60)
    address, _ = served(url)
    tab.without_scripts()
    tab.go(address)
    _sign_in(tab)
    tab.click(".needs a[href*=held]")
    tab.click("a[rel=next]")
    tab.click("a[rel=prev]")
    tab.press(tab.place("input[name=all]"))
    tab.click("button[value=reopen]")
    assert "These 61 calls may run again" in tab.text()
    tab.click("button.danger")
    assert "61 of 61 keys reopened" in tab.text()
    tab.click("nav a:nth-child(4)")
    tab.click("button[value=retry]")
    tab.screenshot(FOLDER / "confirm-retry.png")
    tab.click("button.danger")
    assert "Message put back" in tab.text()
    tab.click("nav a:nth-child(6)")
    assert all(action in tab.text() for action in ("sign in", "reopen", "retry"))
    assert tab.complaints == []


def test_markup_in_keys_topics_and_errors_is_never_run(tab, served, url):
    address, _ = served(url)
    tab.go(f"{address}outbox")
    assert "<script>" in tab.text()  # shown as it was written
    tab.click("nav a:nth-child(2)")
    _find(tab, EVIL)
    assert "done" in tab.text()
    assert tab.ask("document.title").startswith("Key ")
    assert tab.complaints == []
    # And if some markup got through after all, the browser would not run it.
    tab.ask("document.body.insertAdjacentHTML('beforeend', `<img src=x onerror=\"document.title='owned'\">`)")
    tab.wait_for("document.images[0].complete")
    assert tab.ask("document.title").startswith("Key ")
    assert any("Content Security Policy" in str(each) for each in tab.complaints)


def _picture(tab, name):
    """On every device and in every light; the page is never wider than the device."""
    for device, scheme in ((DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")):
        tab.size(device)
        tab.colours(scheme)
        kind = "phone" if device is PHONE else "screen"
        tab.screenshot(FOLDER / f"{name}-{kind}-{scheme}.png")
        assert tab.ask("document.documentElement.scrollWidth <= innerWidth"), (
            f"{name} is too wide for a {kind}"
        )
    tab.size(DESKTOP)
    tab.colours("light")


def _settle_the_first(tab, fill, button):
    """Four clicks, and what is typed between them."""
    tab.click(".needs a[href*=held]")
    tab.click("td.main a")
    fill()
    tab.click(button)
    _picture(tab, "confirm-resolve")
    tab.click("button.danger")


def _sign_in(tab):
    tab.click("a.badge")
    tab.type("input[name=name]", "ann")
    tab.type("input[name=token]", TOKEN)
    tab.click("main button")


def _find(tab, key):
    tab.type("input[name=key]", key)
    tab.click(".search button")
