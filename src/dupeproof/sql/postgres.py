"""A PostgreSQL URL as libpq takes it: its parameters, the hosts it names, and what is wrong when connecting fails."""

import math
import os
import random
import re
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import parse_qsl

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from dupeproof import defaults
from dupeproof.core.durations import milliseconds
from dupeproof.errors import ConfigError

Parameters = dict[str, str]
OURS = ("timeout", "pool")
"""Options of our stores, which no driver knows: the URL of a store is also one of its database."""
FORM = (
    "write postgresql://user:password@host:5432/database?timeout=5s&pool=10, with what is special in user and password "
    "percent-encoded: %20 for a space"
)
_POOL = "10"
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_KEPT_ALIVE = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
"""Seconds. A firewall drops idle connections without a reset."""
_LEAST_PATIENCE = 2
"""Seconds, as in libpq, which knows whole ones."""
_SHUNNED_FOR = 30.0
"""Seconds for which a host that did not answer is asked last."""


def plain_url(url: str) -> str:
    """Without the options that are ours. The rest as it stands: libpq knows `%20` for a space, and no `+`."""
    base, _, query = url.partition("?")
    kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in OURS]
    return f"{base}?{'&'.join(kept)}" if kept else base


def parameters(url: str, shown: str) -> Parameters:
    """What libpq reads out of it. Its own words are not passed on, for they may quote the password."""
    plain = plain_url(url)
    try:
        return {name: str(value) for name, value in conninfo_to_dict(plain).items() if value is not None}
    except psycopg.ProgrammingError:
        pass
    known = {each.keyword.decode() for each in psycopg.pq.Conninfo.get_defaults()}
    unknown = [name for name, _ in parse_qsl(plain.partition("?")[2]) if name not in known]
    why = f": it has no option {unknown[0]!r}" if unknown else ""
    raise ConfigError(f"{shown} is not a PostgreSQL URL{why}; {FORM}")


def timeout(url: str) -> float:
    """Seconds after which a server that does not answer counts as down."""
    given = dict(parse_qsl(url.partition("?")[2])).get("timeout", defaults.STORE_TIMEOUT)
    return milliseconds(float(given) if _NUMBER.fullmatch(given) else given, name="timeout") / 1_000


def pool_size(url: str) -> int:
    """How many connections are kept."""
    pool = dict(parse_qsl(url.partition("?")[2])).get("pool", _POOL)
    if not (pool.isascii() and pool.isdigit()) or int(pool) < 1:
        raise ConfigError(f"pool must be a number of connections, at least 1; got {pool!r}")
    return int(pool)


class Host(NamedTuple):
    host: str
    """A name, an address, or the folder of a socket; empty for libpq's default."""
    hostaddr: str
    port: str

    @property
    def is_name(self) -> bool:
        """Whether it has to be looked up."""
        if not self.host or self.hostaddr or self.host[0] in "/@":
            return False
        try:
            ip_address(self.host)
        except ValueError:
            return True
        return False


class Hosts:
    """Where a URL leads, one host after the other. One that did not answer is asked last for a while.

    With several hosts the one that takes writes is meant, unless the URL says otherwise: all we do is write.
    """

    def __init__(self, found: Parameters, shown: str) -> None:
        self._found = {**_KEPT_ALIVE, **found}
        self._hosts = list(_hosts(self._found, shown))
        if len(self._hosts) > 1 and "PGTARGETSESSIONATTRS" not in os.environ:
            self._found.setdefault("target_session_attrs", "read-write")
        self._at_random = self._found.pop("load_balance_hosts", "") == "random"
        self.patience = _patience(self._found.pop("connect_timeout", ""), shown)
        """Seconds for each host at most, if the URL has a connect_timeout."""
        self._silent_at: dict[Host, float] = {}

    def in_turn(self, now: float) -> list[Host]:
        hosts = random.sample(self._hosts, len(self._hosts)) if self._at_random else self._hosts
        return sorted(hosts, key=lambda host: now - self._silent_at.get(host, -_SHUNNED_FOR) < _SHUNNED_FOR)

    def silent(self, host: Host, now: float) -> None:
        self._silent_at[host] = now

    def answered(self, host: Host) -> None:
        self._silent_at.pop(host, None)

    def conninfo(self, host: Host, address: str, seconds: float) -> str:
        """What to connect with, for that long. A file that cannot be read is named here; the driver would call the server unreachable."""
        for option in _FILES:
            path = self._found.get(option, "")
            if path and path != "system" and ":" not in path and not os.access(path, os.R_OK):
                raise ConfigError(
                    f"{option}={path} in the PostgreSQL URL is not a file that can be read here"
                )
        here = {"host": host.host, "hostaddr": address or host.hostaddr, "port": host.port}
        patience = max(_LEAST_PATIENCE, math.ceil(seconds))
        return make_conninfo(
            "",
            **self._found,
            **{name: value for name, value in here.items() if value},
            connect_timeout=patience,
        )


def _hosts(found: Parameters, shown: str) -> Iterator[Host]:
    """Takes from the parameters those that may be lists."""
    names, addresses, ports = (found.pop(name, "").split(",") for name in ("host", "hostaddr", "port"))
    count = max(len(names), len(addresses))
    if not all(port == "" or (port.isascii() and port.isdigit()) for port in ports):
        raise ConfigError(f"{shown} is not a PostgreSQL URL: a port is a number; {FORM}")
    if any(len(each) not in (1, count) for each in (names, addresses, ports)):
        raise ConfigError(f"{shown} has {count} hosts; give one port for all, or one for each")
    for place in range(count):
        yield Host(*(each[place if len(each) > 1 else 0] for each in (names, addresses, ports)))


def _patience(given: str, shown: str) -> float:
    try:
        seconds = int(given or "0")
    except ValueError:
        raise ConfigError(f"{shown}: connect_timeout is a whole number of seconds, not {given!r}") from None
    return max(_LEAST_PATIENCE, seconds) if seconds > 0 else float("inf")


# What connecting fails with has no code, only words: those of libpq, or the server's after FATAL. Where they are in
# another language, they are passed on as they are.
_WORDS: list[tuple[str, str]] = [
    (r"password authentication failed|no password supplied|authentication failed",
     "refused the user name or password; check the credentials in the URL"),
    (r'role ".*" does not exist|is not permitted to log in', "refused the user; check its name in the URL"),
    (r"database .* does not exist|no such database", "has no such database; check the name in the URL"),
    (r"permission denied for database", "does not let this user into the database; GRANT CONNECT ON DATABASE … TO …"),
    (r"no pg_hba.conf entry", "lets nobody in from here under this name and this encryption: see pg_hba.conf, and sslmode in the URL"),
    (r"certificate verify failed|does not match host name|certificate has expired",
     "has a certificate that cannot be trusted; check sslrootcert, sslmode and the host name in the URL"),
    (r"server does not support SSL", "does not speak TLS, and sslmode in the URL asks for it"),
    (r"client certificate|private key file|could not load (?:private key|certificate)|could not read certificate|alert",
     "and this client do not agree on TLS; check sslcert, sslkey and sslrootcert in the URL"),
    (r"root certificate file", "cannot be checked without a CA file; name one as sslrootcert in the URL"),
    (r"SSL|TLS", "could not be reached over TLS; check sslmode and the certificates in the URL"),
    (r"unrecognized configuration parameter|unsupported startup parameter|invalid command-line argument",
     "or a pooler before it does not know an option of the URL"),
    (r"invalid value for parameter", "was given a setting in the options of the URL that has no such value"),
    (r"statement pooling", "is behind a pooler in statement mode, which has no transactions; set pool_mode = transaction in the pooler"),
    (r"too many clients|remaining connection slots|too many connections|no more connections allowed", "has no connection left"),
    (r"session is read-only|session is not read-only|server is in hot standby mode|not read-write",
     "takes no writes: none of its hosts is a primary"),
    (r"the database system is (?:starting up|shutting down|in recovery mode|not (?:yet )?accepting connections)",
     "is starting or ending; try again"),
    (r"failed to resolve host|could not translate host name", "cannot be reached: its name is not known"),
]  # fmt: skip


def advice(text: str) -> str:
    """What an error without a code is about and what to do, to stand after the server's name."""
    meaning = _meaning(text)
    return f"cannot be reached: {_reason(text)}" if meaning is None else f"{meaning} ({_reason(text)})"


def _meaning(text: str) -> str | None:
    return next((meaning for pattern, meaning in _WORDS if re.search(pattern, text)), None)


def check_options(text: str) -> None:
    """Raises where the driver did not like an option, and asked nobody."""
    if re.search(r"invalid (?:\w+ value: |integer value |connection option)", text) and "FATAL" not in text:
        raise ConfigError(f"an option of the PostgreSQL URL cannot be used: {_reason(text)}")


def most_telling(errors: Sequence[psycopg.Error]) -> psycopg.Error:
    """Of what several hosts failed with: the last one we have words for, or else the last."""
    return max(reversed(errors), key=lambda error: _meaning(str(error)) is not None)


def _reason(text: str) -> str:
    """The useful part of the driver's message. It contains no password."""
    line = text.strip().splitlines()[0] if text.strip() else ""
    return re.split(r"(?:connection failed|connection is bad|failed|FATAL|ERROR): +", line)[-1][:200]
