"""NATS with JetStream: one process, streams on disk."""

import json
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from .base import ProcessServer
from .certificates import Certificate

USER = "dupeproof"


class Nats(ProcessServer):
    """`settings` are lines of its configuration: `{"max_payload": "1MB"}`. With `tls` clients have to speak it."""

    name = "nats"

    def __init__(
        self,
        *,
        port: int | None = None,
        settings: Mapping[str, str | int] | None = None,
        tls: Certificate | None = None,
        search: Sequence[str] | None = None,
    ) -> None:
        super().__init__(port=port, search=search)
        self._password = secrets.token_hex(8)
        self._settings = dict(settings or {})
        self._tls = tls

    def prepare(self) -> None:
        secured = {}
        if self._tls is not None:
            copy = self._tls.copied(self.home, self.user)
            secured["tls"] = f'{{ cert_file: "{copy.certfile}", key_file: "{copy.keyfile}" }}'
        lines = {
            "server_name": self._server,
            "host": "127.0.0.1",
            "port": self.port,
            "jetstream": f'{{ store_dir: "{self.home}/data", max_mem: 64MB, max_file: 1GB }}',
            "authorization": f'{{ user: "{USER}", password: "{self._password}" }}',
            **secured,
            **self._settings,
        }
        self._conf.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))

    def command(self) -> Sequence[str | Path]:
        return [self.programs()["nats-server"], "--config", self._conf]

    def ready(self) -> bool:
        """Up, and ours: what it says first has its name."""
        return greeting("127.0.0.1", self.port)["server_name"] == self._server

    @property
    def url(self) -> str:
        return f"nats://{USER}:{self._password}@127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"tls://{USER}:{self._password}@localhost:{self.port}"

    @property
    def version(self) -> str:
        return nats_version(self.url)

    @property
    def _server(self) -> str:
        return f"dupeproof{self.port}"

    @property
    def _conf(self) -> Path:
        return self.home / "nats.conf"


def greeting(host: str, port: int) -> dict[str, str]:
    """What it says first, before anybody has to log in."""
    with socket.create_connection((host, port), timeout=1) as connection, connection.makefile("rb") as lines:
        line = lines.readline()
    if not line.startswith(b"INFO "):
        raise OSError("whoever listens there is no NATS")
    facts: dict[str, str] = json.loads(line.removeprefix(b"INFO "))
    return facts


def nats_version(url: str) -> str:
    there = urlsplit(url)
    return greeting(there.hostname or "127.0.0.1", there.port or 4222)["version"]
