"""Looking whether a socket is ready, with what the system has for it."""

import select
from collections.abc import Callable, Sequence


def poller(fileno: int, *, writing: bool = False) -> Callable[[float], Sequence[object]]:
    """A function that waits for so many milliseconds at most, and gives something if it is ready to read or write."""
    if not hasattr(select, "poll"):  # eventlet takes it away, Windows has none
        outgoing = [fileno] if writing else []
        return lambda milliseconds: [
            each for ready in select.select([fileno], outgoing, [], milliseconds / 1_000) for each in ready
        ]
    made = select.poll()
    made.register(fileno, select.POLLIN | select.POLLOUT if writing else select.POLLIN)
    return made.poll
