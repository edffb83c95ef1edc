"""What a Redis URL points at: one server, a Sentinel group, or a Cluster; checked before anything is opened."""

from typing import Literal
from urllib.parse import unquote

from msgspec import Struct

from dupeproof.errors import ConfigError
from dupeproof.stores.redis.links import AT_SOCKET, LinkOptions, tls_of_redis
from dupeproof.stores.tls import OPTIONS as TLS_OPTIONS
from dupeproof.stores.urls import StoreURL

Kind = Literal["single", "sentinel", "cluster"]
Address = tuple[str, int]
_OPTIONS = {
    "timeout",
    "db",
    "sentinel_username",
    "sentinel_password",
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_cert_reqs",
    *TLS_OPTIONS,
}


_OF_SOCKETS = {"timeout", "db", "username", "password"}
_SOCKETS = ("unix", "redis+unix")


class Target(Struct, frozen=True):
    kind: Kind
    hosts: list[Address]
    service: str
    """Name of the primary, for Sentinel."""
    shown: str
    """The URL as it may be printed."""
    link: LinkOptions
    sentinel_link: LinkOptions

    @property
    def timeout(self) -> float:
        return self.link.timeout


def target(url: StoreURL) -> Target:
    if url.scheme in _SOCKETS:
        return _at_socket(url)
    kind = _kind(url.scheme)
    options = url.take(_OPTIONS)
    userinfo, _, hosts = url.parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    service, database = _path(kind, url.parts.path.strip("/"), options.get("db", ""))
    tls = tls_of_redis(options).context() if url.scheme.startswith("rediss") else None
    default_port = 26379 if kind == "sentinel" else 6379
    nodes = [_host(each, default_port) for each in hosts.split(",")]
    if kind == "single" and len(nodes) > 1:
        raise ConfigError("several hosts need redis+cluster:// or redis+sentinel://")
    link = LinkOptions(
        timeout=url.timeout,
        username=unquote(user) or None,
        password=unquote(password) or None,
        database=_number(database, "database") if database else 0,
        tls=tls,
    )
    sentinel_link = LinkOptions(
        timeout=url.timeout,
        username=options.get("sentinel_username"),
        password=options.get("sentinel_password"),
        tls=tls,
    )
    return Target(kind, nodes, service, str(url), link, sentinel_link)


def _at_socket(url: StoreURL) -> Target:
    """`unix:///run/redis.sock?db=1`, with credentials before an @, or as options, as redis-py has it."""
    options = url.take(_OF_SOCKETS)
    userinfo, _, host = url.parts.netloc.rpartition("@")
    path = unquote(url.parts.path)
    if host or not path.strip("/"):
        raise ConfigError(
            f"{url.scheme}:// is followed by the path of a socket: {url.scheme}:///run/redis/redis.sock"
        )
    user, _, password = userinfo.partition(":")
    database = options.get("db", "")
    link = LinkOptions(
        timeout=url.timeout,
        username=unquote(user) or options.get("username"),
        password=unquote(password) or options.get("password"),
        database=_number(database, "database") if database else 0,
    )
    return Target("single", [(path, AT_SOCKET)], "", str(url), link, link)


def _path(kind: Kind, path: str, option: str) -> tuple[str, str]:
    """The name of the Sentinel service and the database, from the path and ?db=."""
    if kind == "sentinel":
        if not path:
            raise ConfigError(
                "a sentinel URL ends in the name of the primary: redis+sentinel://host:26379/mymaster"
            )
        service, _, database = path.partition("/")
        return service, option or database
    if kind == "cluster" and (path or option):
        raise ConfigError("a Redis Cluster has only database 0; leave the path off the URL")
    return "", option or path


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
