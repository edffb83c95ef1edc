# No twin: a thread waits in the system call here, a task in its loop in the async counterpart.
"""Waiting for the socket of a connection, for threads."""

import time

from dupeproof.stores.postgres.faults import Timeout
from dupeproof.stores.sockets import poller


class Watch:
    """The socket of one connection."""

    def __init__(self, fileno: int) -> None:
        self._reading = poller(fileno)
        self._either = poller(fileno, writing=True)

    def readable(self) -> bool:
        return bool(self._reading(0))

    def wait(self, deadline: float, *, writing: bool = False) -> None:
        """Until there is something to read or, if `writing`, room to write. Raises `Timeout`."""
        poll = self._either if writing else self._reading
        if not poll(max(0.0, deadline - time.monotonic()) * 1_000):
            raise Timeout("no answer in time")
