"""What a Redis URL points at: one server, a Sentinel group, or a Cluster; checked before anything is opened."""

from typing import Any, Literal
from urllib.parse import unquote

from msgspec import Struct

from dupeproof.errors import ConfigError
from dupeproof.stores.urls import StoreURL

Kind = Literal["single", "sentinel", "cluster"]
Address = tuple[str, int]
_MANY = 1 << 16
"""Connections are opened as callers need them; the server's maxclients is the limit that counts."""
_OPTIONS = {
    "timeout",
    "db",
    "sentinel_username",
    "sentinel_password",
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_cert_reqs",
}


class Target(Struct, frozen=True):
    kind: Kind
    hosts: list[Address]
    service: str
    """Name of the primary, for Sentinel."""
    timeout: float
    shown: str
    """The URL as it may be printed."""
    options: dict[str, Any]
    """Arguments for every connection to a data node."""
    sentinel_options: dict[str, Any]


def target(url: StoreURL) -> Target:
    kind = _kind(url.scheme)
    options = url.take(_OPTIONS)
    netloc = url.parts.netloc
    userinfo, _, hosts = netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    path = url.parts.path.strip("/")
    timeouts = {"socket_timeout": url.timeout, "socket_connect_timeout": url.timeout}
    tls: dict[str, Any] = {name: value for name, value in options.items() if name.startswith("ssl_")}
    if url.scheme.startswith("rediss"):
        tls["ssl"] = True
    connection: dict[str, Any] = {"protocol": 2, "max_connections": _MANY, **timeouts, **tls}
    if password:
        connection["password"] = unquote(password)
    if user:
        connection["username"] = unquote(user)
    sentinel = {**timeouts, **tls}
    for name in ("username", "password"):
        if f"sentinel_{name}" in options:
            sentinel[name] = options[f"sentinel_{name}"]
    service = ""
    database = options.get("db", "")
    if kind == "sentinel":
        if not path:
            raise ConfigError(
                "a sentinel URL ends in the name of the primary: redis+sentinel://host:26379/mymaster"
            )
        service, _, rest = path.partition("/")
        database = database or rest
    elif kind == "single":
        database = database or path
    elif path or database:
        raise ConfigError("a Redis Cluster has only database 0; leave the path off the URL")
    if database:
        connection["db"] = _number(database, "database")
    default_port = 26379 if kind == "sentinel" else 6379
    nodes = [_host(each, default_port) for each in hosts.split(",")]
    if kind == "single" and len(nodes) > 1:
        raise ConfigError("several hosts need redis+cluster:// or redis+sentinel://")
    return Target(kind, nodes, service, url.timeout, str(url), connection, sentinel)


def _kind(scheme: str) -> Kind:
    if scheme.endswith("+sentinel"):
        return "sentinel"
    return "cluster" if scheme.endswith("+cluster") else "single"


def _host(text: str, default_port: int) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text, str(default_port)
    return host.strip("[]") or "localhost", _number(port, "port")


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f"the {what} in the Redis URL must be a number")
    return int(text)
