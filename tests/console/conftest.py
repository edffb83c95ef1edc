"""The console in this process, for what it answers; or served by a process of its own."""

import os
import re
import shutil
import signal
import sys
from html import unescape
from pathlib import Path
from urllib.request import urlopen

import httpx
import pytest
from console_data import TOKEN, address, digest_of, fill

from dupeproof.console import ConsoleApp
from dupeproof_lab.servers import process, wait_until

HERE = Path(__file__).parent
ORIGIN = "http://127.0.0.1"


class Visitor:
    """A browser as far as the console can tell: keeps cookies, and says where its forms come from."""

    def __init__(self, app):
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=ORIGIN, follow_redirects=True
        )

    async def get(self, path):
        return await self.client.get(path)

    async def post(self, path, origin=ORIGIN, **fields):
        headers = {} if origin is None else {"Origin": origin}
        return await self.client.post(path, data=fields, headers=headers)

    async def sign_in(self, token=TOKEN, name="ann"):
        return await self.post("/sign-in", token=token, name=name)

    async def asked(self, path, **fields):
        """Choose an action; what the form that confirms it would send."""
        answer = await self.post(path, **fields)
        assert answer.status_code == 200, answer.text
        hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', answer.text)
        assert "confirmation" in dict(hidden), answer.text
        return {name: unescape(value) for name, value in hidden}

    async def change(self, action, *keys, namespace="default", **fields):
        """Choose keys, see what would happen, and confirm it; the page that says what did."""
        digests = [digest_of(key, namespace) for key in keys]
        return await self.post(
            "/keys/change", **await self.asked("/keys/confirm", action=action, digest=digests, **fields)
        )


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    fill(folder)
    return folder


@pytest.fixture
def url(filled, tmp_path):
    """Of a store with something of everything in it, the test's own."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return address(tmp_path)


@pytest.fixture
async def visit(url):
    """A function that opens a console on the store and comes to it as a new visitor."""
    apps = []

    def come(app=None, **options):
        if app is None:
            app = ConsoleApp(url, **({"token": TOKEN} | options))
            apps.append(app)
        visitor = Visitor(app)
        visitor.app = app
        return visitor

    yield come
    for app in apps:
        await app.close()


@pytest.fixture
def served(tmp_path):
    """A function that serves `console_app` from a process of its own; its address and process id."""
    started = []

    def serve(store, **settings):
        port = process.free_port()
        command = [sys.executable, "-m", "uvicorn", "console_app:app", "--port", str(port), "--app-dir", str(HERE),
                   "--log-level", "warning"]  # fmt: skip
        env = {"CONSOLE_STORE": store, "CONSOLE_TOKEN": TOKEN, **settings}
        with (tmp_path / "log").open("ab") as log:
            running = process.spawn(command, cwd=tmp_path, log=log, env=env, end_signal=signal.SIGTERM)
        started.append(running)
        page = f"http://127.0.0.1:{port}/ops/"

        def answers():
            assert running.poll() is None, (tmp_path / "log").read_text()
            with urlopen(page, timeout=10) as answer:
                return answer.status == 200

        wait_until(answers, what="the console to answer")
        return page, running.pid

    yield serve
    for running in started:
        os.kill(running.pid, signal.SIGTERM)
        process.forget(running)
