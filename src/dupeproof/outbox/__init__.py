"""Messages written in your transaction and published after it: the outbox, and the relay that empties it."""

from typing import TYPE_CHECKING

from dupeproof.errors import BrokerFull, BrokerUnavailable
from dupeproof.lazy import lazily

if TYPE_CHECKING:
    from dupeproof.outbox.failures import HeldBack
    from dupeproof.outbox.messages import Added, Message
    from dupeproof.outbox.outbox import Outbox
    from dupeproof.outbox.outbox_async import AsyncOutbox
    from dupeproof.outbox.publishers import Publisher
    from dupeproof.outbox.publishers_async import AsyncPublisher
    from dupeproof.outbox.relay import Relay
    from dupeproof.outbox.relay_async import AsyncRelay
    from dupeproof.outbox.reports import DeadMessage, OutboxStatus

__all__ = [
    "Added",
    "AsyncOutbox",
    "AsyncPublisher",
    "AsyncRelay",
    "BrokerFull",
    "BrokerUnavailable",
    "DeadMessage",
    "HeldBack",
    "Message",
    "Outbox",
    "OutboxStatus",
    "Publisher",
    "Relay",
]

__getattr__ = lazily(
    __name__,
    {
        "Added": "messages",
        "AsyncOutbox": "outbox_async",
        "AsyncPublisher": "publishers_async",
        "AsyncRelay": "relay_async",
        "DeadMessage": "reports",
        "HeldBack": "failures",
        "Message": "messages",
        "Outbox": "outbox",
        "OutboxStatus": "reports",
        "Publisher": "publishers",
        "Relay": "relay",
    },
)
