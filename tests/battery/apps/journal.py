"""What happened, on disk so that it outlives a kill: lines of a name and what happened to it."""

import os
from pathlib import Path

JOURNAL = Path(os.environ["BATTERY_JOURNAL"])


def wrote(name: str, what: str) -> None:
    with JOURNAL.open("ab", buffering=0) as journal:
        journal.write(f"{name} {what}\n".encode())
