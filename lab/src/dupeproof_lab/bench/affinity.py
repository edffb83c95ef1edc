"""Which core the client and the servers run on: the same one, two, or wherever the system puts them."""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from dupeproof.errors import ConfigError

_LOOK_SECONDS = 0.3
Pin = Literal["same", "cross", "none"]
MEANING: dict[Pin, str] = {
    "same": "client and server on one core: what it costs, with nothing won by a second core",
    "cross": "client and server on a core each: includes waking the other core at every round trip",
    "none": "wherever the system puts them: moves by a factor of two from run to run",
}


def cores(pin: Pin) -> tuple[set[int], set[int]]:
    """Those of the client and those of the servers; the idlest there are."""
    free = os.sched_getaffinity(0)
    match pin:
        case "same":
            return ({_idlest(free)},) * 2
        case "cross" if len(free) < 2:
            raise ConfigError("--pin cross needs two cores; this process has one")
        case "cross":
            client = _idlest(free)
            return {client}, {_idlest(free - {client})}
        case "none":
            return free, free


def _idlest(among: set[int]) -> int:
    before = _idle_time()
    time.sleep(_LOOK_SECONDS)
    after = _idle_time()
    return max(among, key=lambda core: (after[core] - before[core], core))


def _idle_time() -> dict[int, int]:
    """Of every core, since the machine was started."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    rows = [line.split() for line in lines if line.startswith("cpu") and line[3].isdigit()]
    return {int(name[3:]): int(idle) for name, _, _, _, idle, *_ in rows}


@contextlib.contextmanager
def pinned(chosen: set[int]) -> Iterator[None]:
    """This process, with all its threads, on these cores until the end of the block."""
    before = os.sched_getaffinity(0)
    place([os.getpid()], chosen)
    try:
        yield
    finally:
        place([os.getpid()], before)


def place(pids: Iterable[int], chosen: set[int]) -> None:
    """Move processes that run already; what they start later goes where they are."""
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), chosen)
