"""`dupeproof version`: which dupeproof, on what."""

import platform
import sqlite3

from dupeproof import __version__
from dupeproof.cli.output import say


def version() -> None:
    """Print the version, and those of Python and SQLite under it."""
    say(f"dupeproof {__version__} (Python {platform.python_version()}, SQLite {sqlite3.sqlite_version})")
