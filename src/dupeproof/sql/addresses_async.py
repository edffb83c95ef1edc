# No twin: a task looks up a name in a thread here, and gives up in time; a thread does it itself in the sync counterpart.
"""The addresses of a host, for tasks."""

import asyncio
import socket
import time

import psycopg

from dupeproof.sql.postgres import Host


async def addresses_of(host: Host, deadline: float) -> list[str]:
    """One empty text where there is nothing to look up."""
    if not host.is_name:
        return [""]
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            found = await loop.getaddrinfo(
                host.host, host.port or 5432, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
            )
    except (OSError, UnicodeError) as exc:
        raise psycopg.OperationalError(f"failed to resolve host {host.host!r}: {exc}") from exc
    return list(dict.fromkeys(str(each[4][0]) for each in found))
