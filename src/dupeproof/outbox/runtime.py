# No twin: threads and system calls here, tasks and a loop in the async counterpart.
"""Opening sources, and resting until there is something to do, for threads."""

import os
import select
import threading
from collections.abc import Callable
from typing import TypeVar

from dupeproof.outbox.failures import TooLate
from dupeproof.outbox.messages import Message
from dupeproof.outbox.sources import Source, open_source

__all__ = [
    "IS_ASYNC",
    "OTHER_KIND",
    "OTHER_RELAY",
    "Rest",
    "Source",
    "bounded",
    "call",
    "open_source",
]
T = TypeVar("T")
_LOOK = 0.1
"""Seconds between two looks at the time."""
IS_ASYNC = False
OTHER_KIND, OTHER_RELAY = "async", "AsyncRelay"


def call(function: Callable[[Message], object], message: Message) -> None:
    function(message)


def bounded(work: Callable[[], T], late: Callable[[], bool]) -> T:
    """What the work returns. When it is `late` before that, the work is left to itself, and `TooLate` is raised.

    So it is done by a thread of its own: nothing ends a call that waits for an answer in another one.
    """
    done = threading.Event()
    answers: list[T] = []
    errors: list[BaseException] = []

    def go() -> None:
        try:
            answers.append(work())
        except BaseException as exc:  # noqa: BLE001 - raised again where it is taken
            errors.append(exc)
        finally:
            done.set()

    threading.Thread(target=go, name="dupeproof", daemon=True).start()
    while not done.wait(_LOOK):
        if late():
            raise TooLate("there was no answer until the time to stop was over")
    if errors:
        raise errors[0]
    return answers[0]


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
        watched = select.poll()  # not select, which knows no descriptors beyond 1023
        for each in (self._reading, socket):
            if each is not None:
                watched.register(each, select.POLLIN)
        watched.poll(seconds * 1_000)

    def __del__(self) -> None:
        # Not sooner: whoever asks to stop in the last moment must not write to a file that took its number.
        os.close(self._reading)
        os.close(self._writing)
