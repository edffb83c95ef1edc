"""Messages written in your transaction and published after it: the outbox, and the relay that empties it."""

from dupeproof.errors import BrokerUnavailable
from dupeproof.outbox._async.outbox import AsyncOutbox
from dupeproof.outbox._async.publishing import AsyncPublisher
from dupeproof.outbox._async.relay import AsyncRelay
from dupeproof.outbox._sync.outbox import Outbox
from dupeproof.outbox._sync.publishing import Publisher
from dupeproof.outbox._sync.relay import Relay
from dupeproof.outbox.failures import HeldBack
from dupeproof.outbox.messages import Added, Message
from dupeproof.outbox.reports import DeadMessage, OutboxStatus

__all__ = [
    "Added",
    "AsyncOutbox",
    "AsyncPublisher",
    "AsyncRelay",
    "BrokerUnavailable",
    "DeadMessage",
    "HeldBack",
    "Message",
    "Outbox",
    "OutboxStatus",
    "Publisher",
    "Relay",
]
