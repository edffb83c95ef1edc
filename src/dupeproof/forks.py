"""Noticing that this process is a forked child, also where Python's fork hooks did not run.

`os.register_at_fork` covers `os.fork` and what is built on it. uWSGI and other programs that embed Python fork in C, past
those hooks: their children inherit connections, locks and threads' bookkeeping without a word. So whatever does not
survive a fork is reset by `look()`, which everything that uses such a thing calls first. The kernel helps: a page of
memory that it empties in every child (`MADV_WIPEONFORK`) is cheaper to read than asking for the process id.
"""

import mmap
import os
import threading
from typing import Protocol
from weakref import WeakSet

_WIPE_ON_FORK = 18
"""Linux 4.14 and later; Python has no name for it."""


class Resettable(Protocol):
    def after_fork(self) -> None:
        """In a child: give up, without closing it, what belongs to the parent."""
        ...


class _ProcessId:
    """The same as the page, where the kernel has none: true in the process that set it, and in no child."""

    def __getitem__(self, _: int) -> bool:
        return os.getpid() == self._set_by

    def __setitem__(self, _: int, value: int) -> None:
        self._set_by = os.getpid()


def _page() -> "mmap.mmap | _ProcessId":
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(_WIPE_ON_FORK)
    except (AttributeError, OSError, ValueError):
        return _ProcessId()
    return page


page = _page()
page[0] = 1
_all: "WeakSet[Resettable]" = WeakSet()
_resetting = threading.Lock()


def reset_in_children(thing: Resettable) -> None:
    """Call `thing.after_fork()` once in every forked child, before it is used there; as long as it lives."""
    _all.add(thing)


def look() -> None:
    """To be called before anything is used that does not survive a fork.

    Where that is often, `if not page[0]: look()` spares the call.
    """
    if not page[0]:
        _reset()


def _reset() -> None:
    with _resetting:
        if not page[0]:
            for thing in list(_all):
                thing.after_fork()
            page[0] = 1


def _told() -> None:
    global _resetting  # noqa: PLW0603 - another thread of the parent may have had it
    _resetting = threading.Lock()
    page[0] = 0
    _reset()


os.register_at_fork(after_in_child=_told)


class Locked:
    """Has a lock that a forked child finds open, whatever the threads of its parent were doing."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        reset_in_children(self)

    def after_fork(self) -> None:
        self._mutex = threading.Lock()

    @property
    def _lock(self) -> threading.Lock:
        look()
        return self._mutex
