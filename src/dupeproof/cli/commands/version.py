"""`dupeproof version`: which dupeproof, on what."""

import platform
import sqlite3

from dupeproof import __version__
from dupeproof.cli.output import report
from dupeproof.cli.target import AsJson


def version(*, as_json: AsJson = False) -> None:
    """Print the version, and those of Python and SQLite under it."""
    facts = {
        "dupeproof": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    text = f"dupeproof {__version__} (Python {facts['python']}, SQLite {facts['sqlite']})"
    report(text, facts, as_json=as_json)
