"""The caller's own connection, whatever its kind, behind one small interface: execute, inside its transaction."""

from typing import TYPE_CHECKING

from dupeproof.lazy import lazily

if TYPE_CHECKING:
    from dupeproof.sql.adapt import join
    from dupeproof.sql.adapt_async import join_async
    from dupeproof.sql.faults import Translated
    from dupeproof.sql.protocols import Joined
    from dupeproof.sql.protocols_async import AsyncJoined

__all__ = ["AsyncJoined", "Joined", "Translated", "join", "join_async"]

__getattr__ = lazily(
    __name__,
    {
        "AsyncJoined": "protocols_async",
        "Joined": "protocols",
        "Translated": "faults",
        "join": "adapt",
        "join_async": "adapt_async",
    },
)
