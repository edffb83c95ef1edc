"""Stores inside this process: dicts, and SQLite files in a temporary folder."""

import sqlite3
import tempfile
from pathlib import Path

from dupeproof_lab.bench.environments.base import Environment


class MemorySite(Environment):
    store = "memory"
    reopened = True
    url = "memory://"
    durability = "none"

    def clean(self) -> None:
        """Every candidate brings its own."""

    def size(self) -> int:
        """Resident memory of this process; only a process that does nothing else tells something by it."""
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * 4_096


class SQLiteSite(Environment):
    store = "sqlite"
    reopened = True
    durability = "fsync each commit"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dupeproof-bench-")
        self._files = 0

    @property
    def path(self) -> Path:
        return Path(self._folder.name) / f"{self._files}.db"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    @property
    def version(self) -> str:
        return sqlite3.sqlite_version

    def clean(self) -> None:
        for each in Path(self._folder.name).iterdir():
            each.unlink()
        self._files += 1

    def size(self) -> int:
        return sum(each.stat().st_size for each in Path(self._folder.name).iterdir())

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()
