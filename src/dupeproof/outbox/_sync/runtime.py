# No twin: threads and system calls here, tasks and a loop in the async counterpart.
"""Opening sources, and resting until there is something to do, for threads."""

import os
import select
from collections.abc import Callable

from dupeproof.outbox.messages import Message
from dupeproof.outbox.sources import Source, open_source

__all__ = [
    "IS_ASYNC",
    "OTHER_KIND",
    "OTHER_RELAY",
    "Rest",
    "Source",
    "call",
    "open_source",
]
IS_ASYNC = False
OTHER_KIND, OTHER_RELAY = "async", "AsyncRelay"


def call(function: Callable[[Message], object], message: Message) -> None:
    function(message)


class Rest:
    """Between two looks: ended by time, by word from the database, or by the wish to stop.

    A pipe and not an event, so that both can be waited for at once, and so that a signal handler may ask to stop.
    """

    def __init__(self) -> None:
        self.stopping = False
        self._reading, self._writing = os.pipe()

    def stop(self) -> None:
        self.stopping = True
        os.write(self._writing, b"!")

    def wait(self, seconds: float, socket: int | None = None) -> None:
        watched = [self._reading] if socket is None else [self._reading, socket]
        select.select(watched, (), (), seconds)

    def __del__(self) -> None:
        # Not sooner: whoever asks to stop in the last moment must not write to a file that took its number.
        os.close(self._reading)
        os.close(self._writing)
