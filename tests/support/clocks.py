"""Processes that see another time, by libfaketime: what has to stand before their command.

It keeps a semaphore under the number of the process, leaves it behind when that is killed, and refuses to start under a
number that has one. So those of processes that are gone are removed first.
"""

from collections.abc import Callable
from pathlib import Path


def shifted_by(library: Path) -> Callable[[int], list[str]]:
    """The steady clock stays: waits that are timed by it would hang."""

    def before(hours: int) -> list[str]:
        for left in Path("/dev/shm").glob("*faketime_*"):
            if not Path(f"/proc/{left.name.rpartition('_')[2]}").exists():
                left.unlink(missing_ok=True)
        return [
            "env",
            f"LD_PRELOAD={library}",
            f"FAKETIME={hours:+d}h",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
        ]

    return before
