"""Count and empty what a Redis holds, by its URL: one server, a cluster, or behind sentinels."""

import contextlib
from collections.abc import Iterator
from urllib.parse import SplitResult, unquote, urlsplit

from .resp import Resp


def count(url: str) -> int:
    """How many keys there are."""
    with masters(url) as connections:
        return sum(int(str(resp.call("DBSIZE"))) for resp in connections)


def empty(url: str) -> None:
    """Remove all keys of the database the URL names."""
    with masters(url) as connections:
        for resp in connections:
            resp.call("FLUSHDB")


@contextlib.contextmanager
def masters(url: str) -> Iterator[list[Resp]]:
    """A connection to each master."""
    parts = urlsplit(url)
    hosts = _hosts(parts)
    with contextlib.ExitStack() as stack:
        match parts.scheme:
            case "redis":
                found = [stack.enter_context(_connect(parts, *hosts[0]))]
                found[0].call("SELECT", parts.path.strip("/") or "0")
            case "redis+cluster":
                rows = stack.enter_context(_connect(parts, *hosts[0])).text("CLUSTER", "NODES").splitlines()
                serving = [row.split() for row in rows if len(row.split()) > 8 and ",fail" not in row]
                places = [row[1].partition("@")[0].rpartition(":") for row in serving]
                found = [stack.enter_context(_connect(parts, host, int(port))) for host, _, port in places]
            case "redis+sentinel":
                service, _, number = parts.path.strip("/").partition("/")
                sentinel = stack.enter_context(Resp(hosts[0][1], host=hosts[0][0]))
                place = sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
                assert isinstance(place, list), f"the sentinel knows no master {service!r}"
                found = [stack.enter_context(_connect(parts, str(place[0]), int(str(place[1]))))]
                found[0].call("SELECT", number or "0")
            case other:
                raise ValueError(
                    f"cannot look into {other}://: redis, redis+cluster and redis+sentinel are known here"
                )
        yield found


@contextlib.contextmanager
def one_master(url: str) -> Iterator[Resp]:
    with masters(url) as connections:
        yield connections[0]


def _hosts(parts: SplitResult) -> list[tuple[str, int]]:
    pairs = (place.rpartition(":") for place in parts.netloc.rpartition("@")[2].split(","))
    return [(host, int(port)) if host else (port, 6379) for host, _, port in pairs]


def _connect(parts: SplitResult, host: str, port: int) -> Resp:
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return Resp(port, host=host, user=unquote(user), password=unquote(password))
