"""The strongest guarantee: the message is marked in the very transaction that does its work."""

from typing import TYPE_CHECKING

from dupeproof.lazy import lazily

if TYPE_CHECKING:
    from dupeproof.inbox.arrivals import Arrival
    from dupeproof.inbox.entities import Recency
    from dupeproof.inbox.inbox import Inbox
    from dupeproof.inbox.inbox_async import AsyncInbox
    from dupeproof.inbox.windows import WINDOWS

__all__ = ["WINDOWS", "Arrival", "AsyncInbox", "Inbox", "Recency"]

__getattr__ = lazily(
    __name__,
    {
        "Arrival": "arrivals",
        "AsyncInbox": "inbox_async",
        "Inbox": "inbox",
        "Recency": "entities",
        "WINDOWS": "windows",
    },
)
