"""Real servers for tests: on private loopback ports, in temporary folders, gone when the test run is.

    with Redis() as server:
        once = Once(server.url)

Missing programs are installed from the distribution's packages where that is possible.
"""

from .base import ProcessServer, Server, ServerFailed, wait_until
from .group import ServerGroup
from .install import ServerMissing, ensure
from .redis import Redis

__all__ = [
    "ProcessServer",
    "Redis",
    "Server",
    "ServerFailed",
    "ServerGroup",
    "ServerMissing",
    "ensure",
    "wait_until",
]
