"""Redis, or Valkey: one process."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from . import process
from .base import ProcessServer
from .certificates import Certificate
from .resp import Resp, RespError

EMPTY = '""'  # as redis.conf spells it


class Redis(ProcessServer):
    """Keeps nothing over a restart unless `appendonly`; then every write is on disk before it is answered.

    `options` are lines of redis.conf: `{"maxmemory": "10mb"}`. With `tls` there is a second address, `tls_url`.
    """

    name = "redis"

    def __init__(
        self,
        *,
        port: int | None = None,
        appendonly: bool = False,
        options: Mapping[str, str | int] | None = None,
        tls: Certificate | None = None,
        search: Sequence[str] | None = None,
    ) -> None:
        super().__init__(port=port, search=search)
        self._tls, self._tls_port = tls, process.free_port()
        self._options: dict[str, str | int] = {"save": "", "appendonly": "yes" if appendonly else "no"}
        if appendonly:
            self._options["appendfsync"] = "always"
        self._options.update(options or {})

    def prepare(self) -> None:
        # A file and not arguments: a cluster node, a sentinel and CONFIG REWRITE write into it.
        lines: dict[str, str | int] = {
            "bind": "127.0.0.1",
            "port": self.port,
            "dir": str(self.home),
            "daemonize": "no",
        }
        if self._tls is not None:
            copy = self._tls.copied(self.home, self.user)
            lines.update({"tls-port": self._tls_port, "tls-auth-clients": "no"})
            lines.update({"tls-cert-file": str(copy.certfile), "tls-key-file": str(copy.keyfile)})
            lines["tls-ca-cert-file"] = str(copy.cafile)
        lines.update(self._options)
        self._conf.write_text(
            "".join(f"{key} {value if value != '' else EMPTY}\n" for key, value in lines.items())
        )

    def command(self) -> Sequence[str | Path]:
        return [self.programs()[f"{self.name}-server"], self._conf]

    def ready(self) -> bool:
        """Up, and done with loading what it had on disk; and ours, not another on the port we wanted."""
        try:
            with self.connect() as resp:
                return resp.text("PING") == "PONG" and resp.facts("INFO", "server")["process_id"] == str(
                    self.pid
                )
        except RespError:
            return False

    def connect(self) -> Resp:
        """A raw connection, for set-up and for looking inside."""
        return Resp(self.port, password=self._password)

    @property
    def url(self) -> str:
        return f"redis://{f':{self._password}@' if self._password else ''}127.0.0.1:{self.port}/0"

    @property
    def tls_url(self) -> str:
        """With `tls`: the second address, where clients have to speak it."""
        return f"rediss://{f':{self._password}@' if self._password else ''}localhost:{self._tls_port}/0"

    @property
    def version(self) -> str:
        with self.connect() as resp:
            return redis_version(resp)

    @property
    def _password(self) -> str:
        return str(self._options.get("requirepass", ""))

    @property
    def _conf(self) -> Path:
        return self.home / "redis.conf"


class Valkey(Redis):
    """The same protocol, configuration and URL."""

    name = "valkey"


def redis_version(resp: Resp) -> str:
    """Valkey says it is Redis 7.2 and gives its own version beside that."""
    facts = resp.facts("INFO", "server")
    return f"valkey {facts['valkey_version']}" if "valkey_version" in facts else facts["redis_version"]
