"""The servers of the battery: their command lines, and a cell, which is one server with one app in a folder of its own."""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from dupeproof_lab.servers import process
from dupeproof_lab.servers.base import wait_until

HERE = Path(__file__).parent
APPS = HERE / "apps"
BIN = Path(sys.executable).parent
PYTHON = [sys.executable, "-m"]
STOP_SECONDS = 20
"""How long a server may take to end after SIGTERM; the longest of their own limits is 30 s, and no handler runs for one."""
# Made once: an httpx client that makes its own takes longer than most requests here.
CONTEXT = ssl.create_default_context()


def uvicorn(app: str, port: int) -> list[object]:
    return [*PYTHON, "uvicorn", f"{app}:app", "--port", port, "--workers", 2, "--log-level", "warning"]


def hypercorn(workers: int) -> Callable[[str, int], list[object]]:
    """HTTP/1.1, and HTTP/2 for a client that begins with it. One worker ends otherwise than one of several."""
    return lambda app, port: [
        *PYTHON, "hypercorn", f"{app}:app", "--bind", f"127.0.0.1:{port}", "--workers", workers,
    ]  # fmt: skip


def granian(interface: str) -> Callable[[str, int], list[object]]:
    threads = ["--blocking-threads", 8] if interface == "wsgi" else []
    return lambda app, port: [
        *PYTHON, "granian", f"{app}:app", "--interface", interface, "--port", port, "--workers", 2, *threads,
    ]  # fmt: skip


def daphne(app: str, port: int) -> list[object]:
    return [*PYTHON, "daphne", "--bind", "127.0.0.1", "--port", port, "--verbosity", 0, f"{app}:app"]


def gunicorn(kind: str, *options: object) -> Callable[[str, int], list[object]]:
    return lambda app, port: [
        *PYTHON, "gunicorn", f"{app}:app", "--bind", f"127.0.0.1:{port}", "--worker-class", kind, *options,
        "--log-level", "warning", "--no-control-socket",
    ]  # fmt: skip


def waitress(app: str, port: int) -> list[object]:
    return [*PYTHON, "waitress", f"--listen=127.0.0.1:{port}", "--threads=8", f"{app}:app"]


def uwsgi(app: str, port: int) -> list[object]:
    """Without --die-on-term it would take SIGTERM for a reload."""
    return [
        BIN / "uwsgi", "--http-socket", f"127.0.0.1:{port}", "--master", "--processes", 2, "--threads", 4, "--lazy-apps",
        "--need-app", "--module", f"{app}:app", "--virtualenv", BIN.parent, "--die-on-term", "--disable-logging",
    ]  # fmt: skip


@dataclass(frozen=True)
class Server:
    command: Callable[[str, int], list[object]]
    interface: str
    http2: bool = False
    lingers: bool = False
    """Whether it sometimes does not end by itself, also without a guard; its operator kills it, and so do we."""


SERVERS = {
    "uvicorn": Server(uvicorn, "asgi"),
    "hypercorn-h1": Server(hypercorn(2), "asgi"),
    "hypercorn-h2": Server(hypercorn(1), "asgi", http2=True),
    "granian-asgi": Server(granian("asgi"), "asgi", lingers=True),
    "daphne": Server(daphne, "asgi"),
    "granian-wsgi": Server(granian("wsgi"), "wsgi"),
    "gunicorn-sync": Server(gunicorn("sync", "--workers", 3), "wsgi"),
    "gunicorn-gthread": Server(gunicorn("gthread", "--workers", 2, "--threads", 8), "wsgi"),
    "gunicorn-gevent": Server(gunicorn("gevent", "--workers", 2), "wsgi"),
    "waitress": Server(waitress, "wsgi"),
    "uwsgi": Server(uwsgi, "wsgi"),
}


FRAMEWORKS = {
    "starlette": ("asgi",),
    "fastapi": ("asgi",),
    "django": ("asgi", "wsgi"),
    "drf": ("asgi", "wsgi"),
    "ninja": ("asgi", "wsgi"),
    "quart": ("asgi",),
    "litestar": ("asgi",),
    "flask": ("wsgi",),
}
"""And the interfaces they are tried with."""
CELLS = [
    (server, framework)
    for server, found in SERVERS.items()
    for framework, interfaces in FRAMEWORKS.items()
    if found.interface in interfaces
]


def has_both(server: str, framework: str) -> bool:
    """Whether there are sync handlers beside async ones."""
    return SERVERS[server].interface == "asgi" and framework != "drf"


class Running:
    """One server with one app. What the app did is in its journal: lines of a name and what happened to it."""

    def __init__(self, folder: Path, server: str, app: str, *options: str) -> None:
        self._options = options
        self.server = SERVERS[server]
        self.folder = folder
        self._app = app
        self._journal = folder / "journal"
        self._port = process.free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> None:
        env = {
            "BATTERY_JOURNAL": str(self._journal),
            "BATTERY_STORE": f"sqlite:///{self.folder}/dedup.db",
            "BATTERY_INTERFACE": self.server.interface,
            "PYTHONPATH": str(APPS),
            "PYTHONUNBUFFERED": "1",
        }
        command = [*map(str, self.server.command(self._app, self._port)), *self._options]
        with (self.folder / "log").open("ab") as log:
            self._process = process.spawn(
                command, cwd=self.folder, log=log, env=env, end_signal=signal.SIGKILL
            )
        wait_until(self._answers, what=f"{command} to answer")

    def _answers(self) -> bool:
        if not self.is_alive:
            raise RuntimeError(f"it ended by itself\n{self.log}")
        with self.client(timeout=5) as client, contextlib.suppress(httpx.TransportError):
            return client.get("/ready").status_code == 200
        return False

    def client(self, **options: object) -> httpx.Client:
        return httpx.Client(**self.client_options(**options))

    def client_options(self, **options: object) -> dict[str, object]:
        """Every request has a connection of its own, as that of a stranger would."""
        return {
            "base_url": self.url,
            "http1": not self.server.http2,
            "http2": self.server.http2,
            "verify": CONTEXT,
            "headers": {} if self.server.http2 else {"Connection": "close"},
            "limits": httpx.Limits(max_keepalive_connections=0),
            "timeout": 20,
            "trust_env": False,
            **options,
        }

    def kill(self) -> None:
        """SIGKILL for all of it, if it runs."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._over()

    def stop(self) -> float | None:
        """SIGTERM to the first process, as a container's runtime sends it: the seconds it took, None if it had to be killed."""
        assert self._process is not None
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        took = time.monotonic() - began
        self.kill()  # what it has left behind
        return took

    def _over(self) -> None:
        assert self._process is not None
        process.forget(self._process)
        self._process = None
        # Its workers may take a moment longer to die, and would still be given requests.
        wait_until(lambda: not self._is_open(), what=f"port {self._port} to be free")

    def _is_open(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except ConnectionError:
            return False
        return True

    def wrote(self, name: str) -> list[str]:
        """What happened to this name, in its order."""
        if not self._journal.exists():
            return []
        lines = [line.split(" ", 1) for line in self._journal.read_text().splitlines()]
        return [what for of, what in lines if of == name]

    def wait_for(self, name: str, what: str, *, seconds: float = 10) -> None:
        wait_until(
            lambda: what in self.wrote(name), seconds=seconds, what=f"{what!r} among {self.wrote(name)}"
        )
