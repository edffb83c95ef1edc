"""RabbitMQ: one node that keeps to the loopback, with a name daemon of its own."""

import contextlib
import os
import pwd
import re
import secrets
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from . import process, warden
from .base import ProcessServer
from .certificates import Certificate

USER = "dupeproof"
GREETING = b"AMQP\x00\x00\x09\x01"
_VERSION = re.compile(rb"\x07versionS....([\d.]+)", re.DOTALL)

# One scheduler, which sleeps when there is nothing to do. Tests would have to wait for a channel that looks once a minute
# whether a consumer takes too long, and for three minutes until a dead letter is offered again to a queue that was full.
_ERLANG = (
    "-kernel inet_dist_use_interface {127,0,0,1} -rabbit channel_tick_interval 1000 "
    "-rabbit dead_letter_worker_publisher_confirm_timeout 2000 +S 1:1 +sbwt none"
)


class RabbitMQ(ProcessServer):
    """`settings` are lines of rabbitmq.conf: `{"heartbeat": 2}`; `url` has a user who may do everything.

    With `tls` there is a second address, `tls_url`.
    """

    name = "rabbitmq"

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
        self._tls, self._tls_port = tls, process.free_port()
        self._ports = process.free_port(), process.free_port()
        self._names: subprocess.Popen[bytes] | None = None
        self._settings: dict[str, str | int] = {
            "vm_memory_high_watermark.absolute": "512MB",
            "disk_free_limit.absolute": "50MB",
            **(settings or {}),
        }

    @property
    def user(self) -> int | None:
        """The package brings a user for it; as root it would leave files only root can read."""
        if os.geteuid() != 0:
            return None
        with contextlib.suppress(KeyError):
            return pwd.getpwnam("rabbitmq").pw_uid
        return pwd.getpwnam("nobody").pw_uid

    def prepare(self) -> None:
        fixed = {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            "default_user": USER,
            "default_pass": self._password,
            "log.console": "true",
            "log.file": "false",
            "log.connection.level": "error",  # or our looking whether it is up would fill the log
        }
        lines = {**fixed, **self._secured(), **self._settings}
        (self.home / "rabbitmq.conf").write_text("".join(f"{key} = {lines[key]}\n" for key in lines))
        if self.user is not None:
            os.chown(self.home / "rabbitmq.conf", self.user, -1)
        # Erlang nodes find each other through a daemon, which a node starts when there is none and which outlives it. So
        # there is one, on a port of its own, for as long as this server has a home.
        epmd = self.programs()["epmd"]
        command: list[str | Path] = [epmd, "-port", str(self._ports[0]), "-address", "127.0.0.1"]
        with self.log.open("ab") as log:
            self._names = process.spawn(
                command, cwd=self.home, log=log, user=self.user, end_signal=signal.SIGTERM
            )

    def _secured(self) -> dict[str, str]:
        if self._tls is None:
            return {}
        copy = self._tls.copied(self.home, self.user)
        return {
            "listeners.ssl.1": f"127.0.0.1:{self._tls_port}",
            "ssl_options.certfile": str(copy.certfile),
            "ssl_options.keyfile": str(copy.keyfile),
            "ssl_options.cacertfile": str(copy.cafile),
            "ssl_options.verify": "verify_none",
        }

    def discard(self) -> None:
        if self._names is not None:
            warden.end(self._names.pid, signal.SIGTERM)
            process.forget(self._names)
            self._names = None

    def command(self) -> Sequence[str | Path]:
        names, nodes = self._ports
        environment = {
            "HOME": self.home,
            "ERL_EPMD_PORT": names,
            "RABBITMQ_ALLOW_INPUT": "1",  # no shell stands between us and the node
            "RABBITMQ_NODENAME": f"{self._node}@localhost",
            "RABBITMQ_DIST_PORT": nodes,
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": self.home / "rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": self.home / "plugins",
            "RABBITMQ_MNESIA_BASE": self.home / "data",
            "RABBITMQ_LOG_BASE": self.home,
            "RABBITMQ_PID_FILE": self.home / "pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _ERLANG,
        }
        return [
            "env",
            *(f"{name}={value}" for name, value in environment.items()),
            self.programs()["rabbitmq-server"],
            "-noinput",
        ]

    def ready(self) -> bool:
        """Up, and ours: the greeting has the node's name."""
        return f"{self._node}@".encode() in greeting("127.0.0.1", self.port)

    @property
    def url(self) -> str:
        return f"amqp://{USER}:{self._password}@127.0.0.1:{self.port}/"

    @property
    def tls_url(self) -> str:
        """With `tls`: the second address, where clients have to speak it."""
        return f"amqps://{USER}:{self._password}@localhost:{self._tls_port}/"

    @property
    def version(self) -> str:
        return rabbitmq_version(self.url)

    @property
    def _node(self) -> str:
        return f"dupeproof{self.port}"


def greeting(host: str, port: int) -> bytes:
    """What it says first; it names itself and its version before anybody has to log in."""
    with socket.create_connection((host, port), timeout=1) as connection:
        connection.sendall(GREETING)
        return connection.recv(4096)


def rabbitmq_version(url: str) -> str:
    there = urlsplit(url)
    found = _VERSION.search(greeting(there.hostname or "127.0.0.1", there.port or 5672))
    return found[1].decode() if found else "?"
