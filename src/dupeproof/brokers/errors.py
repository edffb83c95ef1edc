"""What goes wrong between us and a broker."""

from dupeproof.errors import BrokerUnavailable, DupeproofError

__all__ = ["BrokerUnavailable", "Fenced", "NotPublished"]


class NotPublished(DupeproofError):
    """The broker has not taken the message; `reason` says in one word why."""

    def __init__(self, text: str, *, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class Fenced(DupeproofError):
    """Another consumer has taken over what this one was working on; what it did is rolled back."""
