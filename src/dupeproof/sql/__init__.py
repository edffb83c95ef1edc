"""The caller's own connection, whatever its kind, behind one small interface: execute, inside its transaction."""

from typing import TYPE_CHECKING

from dupeproof.lazy import lazily

if TYPE_CHECKING:
    from dupeproof.sql.adapters import adapt
    from dupeproof.sql.adapters_async import adapt_async
    from dupeproof.sql.faults import Translated
    from dupeproof.sql.protocols import CallerConnection
    from dupeproof.sql.protocols_async import AsyncCallerConnection

__all__ = ["AsyncCallerConnection", "CallerConnection", "Translated", "adapt", "adapt_async"]

__getattr__ = lazily(
    __name__,
    {
        "AsyncCallerConnection": "protocols_async",
        "CallerConnection": "protocols",
        "Translated": "faults",
        "adapt": "adapters",
        "adapt_async": "adapters_async",
    },
)
