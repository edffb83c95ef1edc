"""How to reach a Redis server and what to say first; shared by the sync and the async link."""

import ssl
from typing import Any

from msgspec import Struct

from dupeproof.stores.redis.resp import pack


class LinkOptions(Struct, frozen=True):
    timeout: float
    username: str | None = None
    password: str | None = None
    database: int = 0
    tls: ssl.SSLContext | None = None

    def greeting(self) -> list[bytes]:
        """Commands that come before everything else on a new connection."""
        commands = []
        if self.password is not None:
            who = [] if self.username is None else [self.username.encode()]
            commands.append(pack(b"AUTH", *who, self.password.encode()))
        if self.database:
            commands.append(pack(b"SELECT", b"%d" % self.database))
        return commands


def tls_context(options: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
    if options.get("ssl_certfile"):
        context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
    if options.get("ssl_cert_reqs") == "none":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
