# No twin: a thread looks up a name itself here; a task does it in a thread in the async counterpart, and gives up in time.
"""The addresses of a host, for threads."""

import socket

import psycopg

from dupeproof.sql.postgres import Host


def addresses_of(host: Host, _: float) -> list[str]:
    """One empty text where there is nothing to look up."""
    if not host.is_name:
        return [""]
    try:
        found = socket.getaddrinfo(
            host.host, host.port or 5432, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    except (OSError, UnicodeError) as exc:
        raise psycopg.OperationalError(f"failed to resolve host {host.host!r}: {exc}") from exc
    return list(dict.fromkeys(str(each[4][0]) for each in found))
