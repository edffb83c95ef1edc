# No twin: a task waits in its loop here, a thread in the system call in the sync counterpart.
"""Waiting for the socket of a connection, for tasks."""

import asyncio
import time

from dupeproof.stores.postgres.faults import Timeout
from dupeproof.stores.sockets import poller


class Watch:
    """The socket of one connection."""

    def __init__(self, fileno: int) -> None:
        self._fileno = fileno
        self._poll = poller(fileno)

    def readable(self) -> bool:
        return bool(self._poll(0))

    async def wait(self, deadline: float, *, writing: bool = False) -> None:
        """Until there is something to read or, if `writing`, room to write. Raises `Timeout`."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(max(0.0, deadline - time.monotonic()), _resolve, ready, False)
        loop.add_reader(self._fileno, _resolve, ready, True)
        if writing:
            loop.add_writer(self._fileno, _resolve, ready, True)
        try:
            if not await ready:
                raise Timeout("no answer in time")
        finally:
            timer.cancel()
            loop.remove_reader(self._fileno)
            if writing:
                loop.remove_writer(self._fileno)


def _resolve(ready: "asyncio.Future[bool]", answer: bool) -> None:
    if not ready.done():
        ready.set_result(answer)
