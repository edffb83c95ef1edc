"""How long messages are remembered: presets, what the code says, and what the database says, which wins."""

import time

from dupeproof.core.durations import Duration, milliseconds
from dupeproof.errors import ConfigError
from dupeproof.sql.statements import Dialect

WINDOWS = {"payments": "24h", "orders": "4h", "notifications": "15m", "analytics": "5m"}
"""Names that can be given for a window."""
LOOK_EVERY = 30.0
"""Seconds after which a running inbox asks for its window again."""

READ = "SELECT milliseconds FROM dupeproof_windows WHERE consumer_group = :group"
LOCK: dict[Dialect, str] = {"sqlite": "DELETE FROM dupeproof_windows WHERE consumer_group IS NULL"}
"""Removes nothing, but makes this a writing transaction before it reads: SQLite refuses to write after a read that is
outdated by then."""
LIST = "SELECT consumer_group, milliseconds FROM dupeproof_windows ORDER BY consumer_group"
REMOVE = "DELETE FROM dupeproof_windows WHERE consumer_group = :group"
_INSERT = "INSERT INTO dupeproof_windows (consumer_group, milliseconds) VALUES (:group, :window) "
_UPSERT = _INSERT + "ON CONFLICT (consumer_group) DO UPDATE SET milliseconds = excluded.milliseconds"
WRITE: dict[Dialect, str] = {
    "postgresql": _UPSERT,
    "sqlite": _UPSERT,
    "mysql": _INSERT + "ON DUPLICATE KEY UPDATE milliseconds = :window",
}


def window_milliseconds(window: Duration) -> int:
    """A duration, or the name of a preset."""
    if isinstance(window, str) and window.isalpha():
        if window not in WINDOWS:
            raise ConfigError(
                f"there is no window called {window!r}; there are {', '.join(WINDOWS)}, and durations such as '24h'"
            )
        return milliseconds(WINDOWS[window])
    return milliseconds(window, name="window")


class Window:
    """The window of one group as it was when last looked at, and whether it is time to look again."""

    def __init__(self, window: Duration) -> None:
        self._given = window_milliseconds(window)
        self.milliseconds = self._given
        self._look_at = 0.0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._look_at

    def found(self, stored: int | None) -> None:
        """What the database says, None for nothing."""
        self.milliseconds = self._given if stored is None else stored
        self._look_at = time.monotonic() + LOOK_EVERY
