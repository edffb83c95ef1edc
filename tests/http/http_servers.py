"""Starts the shop on each kind of server."""

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from dupeproof_lab.servers import process
from dupeproof_lab.servers.base import wait_until

HERE = Path(__file__).parent
PYTHON = [sys.executable, "-W", "error::ResourceWarning"]


def uvicorn(app, loop="uvloop"):
    return lambda port: [
        *PYTHON, "-m", "uvicorn", f"{app}:app", "--port", str(port), "--http", "httptools", "--loop", loop,
        "--log-level", "warning", "--app-dir", str(HERE),
    ]  # fmt: skip


def gunicorn(app):
    return lambda port: [
        *PYTHON, "-m", "gunicorn", f"{app}:app", "--bind", f"127.0.0.1:{port}", "--threads", "16",
        "--chdir", str(HERE), "--backlog", "128", "--log-level", "warning", "--no-control-socket",
    ]  # fmt: skip


def wsgiref(app):
    return lambda port: [*PYTHON, str(HERE / "serve_wsgi.py"), app, str(port)]


def werkzeug(app):
    return lambda port: [
        *PYTHON, "-m", "flask", "--app", f"{app}:app", "run", "--port", str(port), "--with-threads",
    ]  # fmt: skip


SERVERS = {
    "uvicorn-starlette": (uvicorn("app_starlette"), {}),
    "uvicorn-fastapi": (uvicorn("app_fastapi", loop="asyncio"), {}),
    "wsgiref": (wsgiref("app_wsgi"), {}),
    "werkzeug-flask": (werkzeug("app_flask"), {"SHOP_FORM": "decorator"}),
    "gunicorn-flask": (gunicorn("app_flask"), {"SHOP_FORM": "middleware"}),
    "gunicorn-django": (gunicorn("app_django"), {"SHOP_FORM": "middleware"}),
    "uvicorn-django": (uvicorn("app_django"), {"SHOP_FORM": "middleware", "SHOP_ASYNC": "1"}),
}


STORES = {
    "memory": lambda request, folder: "memory://",
    "sqlite": lambda request, folder: f"sqlite:///{folder}/dedup.db",
    "redis": lambda request, folder: request.getfixturevalue("redis_server").url,
    "postgres": lambda request, folder: request.getfixturevalue("postgres_module_url"),
}
EMBEDDED = ("memory", "sqlite")


def on(servers=tuple(SERVERS), stores=tuple(STORES), *, around=("",)):
    """Run the tests of a class on each of these servers and stores."""
    params = [
        pytest.param(
            (server, store, each),
            marks=() if store in EMBEDDED else pytest.mark.server(store),
            id="-".join(filter(None, [server, store, each])),
        )
        for server in servers
        for store in stores
        for each in around
    ]
    return pytest.mark.parametrize("shop", params, indirect=True)


DECORATED = {
    "wsgiref-django": (wsgiref("app_django"), {"SHOP_FORM": "decorator"}),
    "uvicorn-django-views": (uvicorn("app_django"), {"SHOP_FORM": "decorator", "SHOP_ASYNC": "1"}),
    "gunicorn-drf": (gunicorn("app_drf"), {}),
    "uvicorn-drf": (uvicorn("app_drf"), {"SHOP_ASYNC": "1"}),
    "gunicorn-ninja": (gunicorn("app_ninja"), {}),
    "uvicorn-ninja": (uvicorn("app_ninja"), {"SHOP_ASYNC": "1"}),
}
"""Other forms of what is among the servers; one store will do for them."""


SNIPPETS = {
    "gunicorn-snippets": (gunicorn("app_snippets"), {}),
    "uvicorn-snippets": (uvicorn("app_snippets"), {"SHOP_ASYNC": "1"}),
}
"""No shop, but the app of a tutorial."""


SLASHES = {
    "fastapi": (uvicorn("app_slashes"), {"SHOP_FORM": "fastapi"}),
    "flask": (gunicorn("app_slashes"), {"SHOP_FORM": "flask"}),
    "django": (gunicorn("app_slashes"), {"SHOP_FORM": "django"}),
    "django-inside": (gunicorn("app_slashes"), {"SHOP_FORM": "django-inside"}),
    "django-asgi": (uvicorn("app_slashes"), {"SHOP_FORM": "django-asgi"}),
}
"""Shops that take orders at `/orders/`, and send there who asks for `/orders`."""


class Shop:
    """A shop that runs once it is started. What it did is in its journal."""

    def __init__(self, folder: Path, server: str, store: str, **env: str) -> None:
        self._folder = folder
        self.store = store
        self._command, others = (SERVERS | DECORATED | SNIPPETS | SLASHES)[server]
        self.journal = folder / "journal"
        (folder / "small.txt").write_bytes(b"a small file\n")
        self._env = {"SHOP_JOURNAL": str(self.journal), "SHOP_STORE": store, **others, **env}
        self._port = process.free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process = None

    def start(self, **for_this_life: str) -> None:
        self._log = (self._folder / "log").open("ab")
        env = {**self._env, **for_this_life, "PYTHONPATH": str(HERE)}
        self._process = process.spawn(
            self._command(self._port), cwd=self._folder, log=self._log, env=env, end_signal=signal.SIGKILL
        )
        wait_until(self._answers, what=f"{self._folder} to answer")

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError((self._folder / "log").read_text())
        return self._is_open()

    def kill(self) -> None:
        """If it runs."""
        if self._process is None:
            return
        os.killpg(self._process.pid, signal.SIGKILL)
        process.forget(self._process)
        self._process = None
        self._log.close()
        # Its workers may take a moment longer, and answer the phone while they die.
        wait_until(lambda: not self._is_open(), what=f"the port of {self._folder} to be free")

    def _is_open(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except ConnectionError:
            return False
        return True
