"""Chromium without a window, driven by the DevTools protocol: what a person would see."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from .base import ProcessServer

_FLAGS = (
    "--headless=new",
    # It is shown nothing but our own pages, often by root, and in containers that cannot give it a sandbox.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


class Chromium(ProcessServer):
    """`url` is where its DevTools listen."""

    name = "chromium"

    def command(self) -> Sequence[str | Path]:
        return [
            self.programs()["chromium"],
            *_FLAGS,
            f"--remote-debugging-port={self.port}",
            f"--user-data-dir={self.home / 'profile'}",
        ]

    def ready(self) -> bool:
        """Its own word: somebody else's may be the one that answers on the port."""
        return (
            f"DevTools listening on ws://127.0.0.1:{self.port}/" in self.log.read_text()
            and self.version != ""
        )

    def new_page(self) -> str:
        """An empty page; the address of the WebSocket that drives it."""
        address: str = self._ask("json/new", method="PUT")["webSocketDebuggerUrl"]
        return address

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def version(self) -> str:
        product: str = self._ask("json/version")["Browser"]
        return product.partition("/")[2]

    def _ask(self, path: str, method: str = "GET") -> Any:
        with urlopen(Request(f"{self.url}/{path}", method=method), timeout=10) as answer:  # noqa: S310 - ours
            return json.load(answer)
