"""In Chromium: the page of `docs/howto/browsers.md` on one origin, its API on another."""

import functools
import http.server
import json
import re
import signal
import sys
import threading
from pathlib import Path

import pytest
from websockets.sync.client import connect

from dupeproof_lab.servers import process
from dupeproof_lab.servers.base import wait_until
from support.browser import Tab

TEXT = (Path(__file__).parents[2] / "docs/howto/browsers.md").read_text()
[API] = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
[SCRIPT] = re.findall(r"^```js\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
SLOW = """
import time


@app.post("/slow")
def slow():
    orders.append("slow")
    time.sleep(1)
    return len(orders)
"""
INSIDE = "\napp.user_middleware.reverse()\n"


class Pages(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Not in the output of the tests."""


class Site:
    """An API that is started with whatever code, and a tab with a page that comes from elsewhere."""

    def __init__(self, folder, tab, pages):
        self._folder = folder
        self._tab = tab
        self._pages = pages
        self._server = None
        self._port = process.free_port()
        self._log = folder / "log"

    def start(self, code):
        (self._folder / "shop.py").write_text(code.replace("https://shop.example", self._pages))
        with self._log.open("wb") as log:
            self._server = process.spawn(
                [sys.executable, "-m", "uvicorn", "shop:app", "--port", str(self._port)],
                cwd=self._folder,
                log=log,
                end_signal=signal.SIGKILL,
            )
        wait_until(lambda: "Uvicorn running" in self.log, what="the API")
        self._tab.go(self._pages)

    @property
    def log(self):
        return self._log.read_text()

    def post(self, path, **options):
        """What the page sees: status, text, whether it is a replay; or why it sees nothing."""
        options = {"key": "k-1", "headers": {"X-Customer": "c-1"}, "tries": 1, **options}
        seen = "async each => [each.status, await each.text(), each.headers.get('Idempotent-Replayed')]"
        url = f"http://127.0.0.1:{self._port}{path}"
        return self._tab.ask(
            f"post({json.dumps(url)}, {json.dumps(options)}).then({seen}, error => error.message)"
        )

    def stop(self):
        if self._server is not None:
            self._server.kill()
            process.forget(self._server)


@pytest.fixture
def site(own_chromium, tmp_path):
    (tmp_path / "index.html").write_text(f"<title>Shop</title><script>{SCRIPT}</script>")
    handler = functools.partial(Pages, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages:
        thread = threading.Thread(target=pages.serve_forever)
        thread.start()
        try:
            with connect(own_chromium().new_page(), max_size=None) as socket:
                site = Site(tmp_path, Tab(socket), f"http://127.0.0.1:{pages.server_port}")
                yield site
                site.stop()
        finally:
            pages.shutdown()
            thread.join()


FIRST = [201, '{"number":1,"item":"tea"}', None]


def test_a_page_of_another_origin_sees_the_first_response_and_its_replay(site):
    site.start(API)
    assert site.post("/orders?item=tea") == FIRST
    assert site.post("/orders?item=tea") == [*FIRST[:2], "true"]
    assert site.post("/orders?item=tea", key="k-2")[1] == '{"number":2,"item":"tea"}'
    assert site.post("/orders?item=gold")[0] == 422
    assert "stands inside" not in site.log


def test_a_page_that_gives_up_and_tries_again_with_its_key_gets_the_response_of_the_one_run(site):
    site.start(API + SLOW)
    assert site.post("/slow", timeout=300, tries=20) == [200, "1", "true"]


def test_behind_the_guard_cors_is_missing_from_replays_and_the_log_says_so(site):
    site.start(API + INSIDE)
    assert "CORSMiddleware stands inside of the idempotency guard" in site.log
    assert site.post("/orders?item=tea") == FIRST
    assert site.post("/orders?item=tea") == "Failed to fetch"


def test_without_the_key_among_the_allowed_headers_nothing_is_sent(site):
    site.start(API.replace('"Idempotency-Key", ', ""))
    assert site.post("/orders?item=tea") == "Failed to fetch"


def test_without_the_header_among_the_exposed_a_replay_looks_like_the_first_response(site):
    site.start(API.replace('"Idempotent-Replayed", ', ""))
    assert [site.post("/orders?item=tea") for _ in range(2)] == [FIRST, FIRST]
