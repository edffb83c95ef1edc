"""What goes wrong between us and a broker, and who is to blame: the message, or a database that is down for a while."""

import msgspec

from dupeproof.brokers.base import Reject
from dupeproof.errors import (
    BrokerFull,
    BrokerUnavailable,
    Busy,
    ClaimLost,
    Dead,
    DupeproofError,
    Held,
    KeyReused,
    RetryTransaction,
    StoreUnavailable,
)
from dupeproof.sql.faults import code_of, is_database_error

__all__ = ["BrokerUnavailable", "Fenced", "Full", "HungUp", "NotDeadLettered", "NotPublished"]


class NotPublished(DupeproofError):
    """The broker has not taken the message; `reason` says in one word why."""

    def __init__(self, text: str, *, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class Full(NotPublished, BrokerFull):
    """What the message is for has no room. That is the broker's state and no fault of the message: an outage, to be waited for."""

    def __init__(self, text: str) -> None:
        super().__init__(text, reason="full")


class NotDeadLettered(NotPublished):
    """The broker does not take a dead letter, and the connection is good: its message is held, and others go on."""


class HungUp(BrokerUnavailable):
    """The connection was closed while messages were under way: an outage, or one of them is what the broker cannot take."""


class Fenced(DupeproofError):
    """Another consumer has taken over what this one was working on; what it did is rolled back."""


_PASSING = ("08", "53", "57P", "40")
"""Classes of SQLSTATE: connection lost, out of resources, shut down or starting up, rolled back in favour of another."""
_PASSING_NUMBERS = frozenset({1040, 1053, 2002, 2003, 2006, 2013})
"""The same in numbers of MySQL and MariaDB."""
_HOPELESS = (Reject, msgspec.DecodeError, UnicodeDecodeError, KeyReused, Held, Dead)
ELSEWHERE = (Busy, ClaimLost)
"""Someone else is at it; how that ends, the next delivery will find out."""


def is_hopeless(exc: BaseException) -> bool:
    """Whether no further delivery would end differently. A lookup may know later what it does not know now."""
    return isinstance(exc, _HOPELESS) and not (isinstance(exc, Held) and exc.asked)


def not_now(exc: BaseException) -> bool:
    """Whether the database, and not the work, was the trouble."""
    if isinstance(exc, RetryTransaction | StoreUnavailable):
        return True
    names = {each.__name__ for each in type(exc).__mro__}
    if not is_database_error(exc) or not names & {
        "OperationalError",
        "InterfaceError",
        "PostgresConnectionError",
    }:
        return False
    code = code_of(exc)
    if isinstance(code, int):
        return code in _PASSING_NUMBERS
    return code is None or code.startswith(_PASSING)
