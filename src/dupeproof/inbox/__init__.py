"""The strongest guarantee: the message is marked in the very transaction that does its work."""

from dupeproof.inbox._async.inbox import AsyncInbox
from dupeproof.inbox._sync.inbox import Inbox
from dupeproof.inbox.arrivals import Arrival
from dupeproof.inbox.windows import WINDOWS

__all__ = ["WINDOWS", "Arrival", "AsyncInbox", "Inbox"]
