"""Crash points: named places where a test can let the process die. Nothing is armed outside of tests, and then

    if armed:
        reached("after-mark")

costs what looking at an empty dict costs. Points of your own have a dot in their name.
"""

import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from dupeproof.core.events import logger
from dupeproof.errors import ConfigError

VARIABLE = "DUPEPROOF_CRASH_AT"
"""Arms a point in a process as it starts, which is then killed: `after-commit`, or `after-commit:3` for the third time."""
POINTS = {
    "after-mark": "inbox: the message is marked, its transaction still open",
    "before-commit": "inbox.transaction(): the work is done, nothing committed",
    "after-commit": "inbox.transaction(): committed, not returned yet",
    "after-claim": "guards: the key is claimed, the function not begun",
    "after-effect": "guards: the function has returned, its result not stored",
    "after-finish": "guards: the result is stored, not returned to the caller yet",
    "after-publish-before-mark": "relay: the message is published, not yet marked as sent",
    "after-publish-before-removal": "dead letters: the message is published, its dead letter still there",
}


class Crashed(BaseException):
    """The process is to be thought of as dead from here. Not an `Exception`: handlers of those must not survive it."""


class Crash:
    """An armed point, and what happens when it is reached for the n-th time."""

    def __init__(self, point: str, nth: int, *, kill: bool) -> None:
        self.point = point
        self.nth = nth
        self.times = 0
        self._kill = kill
        self._count = itertools.count(1)

    def reached(self) -> None:
        self.times = time = next(self._count)  # each thread gets a number of its own
        if time != self.nth:
            return
        if self._kill:
            os.kill(os.getpid(), signal.SIGKILL)
        raise Crashed(self.point)


armed: dict[str, Crash] = {}


def reached(point: str) -> None:
    """Say that the code has come to this point; dies here if a test wants that."""
    if point in armed:
        armed[point].reached()


def points() -> dict[str, str]:
    """The points in dupeproof's own code, and what each means."""
    return dict(POINTS)


@contextmanager
def crash_at(point: str, nth: int = 1, *, kill: bool = False) -> Iterator[None]:
    """Die when the point is reached for the n-th time: by raising `Crashed`, or with `kill` by SIGKILL.

        with pytest.raises(Crashed), crash_at("after-commit"):
            consume(message)

    A block that comes to its end without having been there is an AssertionError: it would have tested nothing. `Crashed`
    still runs what stands in `finally` and `with`, as a killed process does not; for that use `kill` in a process of its
    own, or set DUPEPROOF_CRASH_AT for it.
    """
    crash = _arm(point, nth, kill=kill)
    try:
        yield
    finally:
        del armed[point]
    if crash.times < nth:
        raise AssertionError(f"the crash point {point!r} was reached {crash.times} times of {nth}")


def arm_from(text: str) -> None:
    """As the environment variable says."""
    point, colon, nth = text.partition(":")
    if colon and not nth.isdecimal():
        raise ConfigError(
            f"{VARIABLE} is a crash point, or one with a number: after-commit:3; got {text!r:.80}"
        )
    _arm(point, int(nth or 1), kill=True)
    logger.warning("%s is set: this process kills itself at %s", VARIABLE, text)


def _arm(point: str, nth: int, *, kill: bool) -> Crash:
    if point not in POINTS and "." not in point:
        raise ConfigError(
            f"there is no crash point {point!r:.80}; there are {', '.join(POINTS)}, and your own, such as 'shop.charged'"
        )
    if nth < 1:
        raise ConfigError(f"nth counts from 1; got {nth}")
    if point in armed:
        raise ConfigError(f"the crash point {point!r} is armed already")
    armed[point] = Crash(point, nth, kill=kill)
    return armed[point]


if os.environ.get(VARIABLE):
    arm_from(os.environ[VARIABLE])
