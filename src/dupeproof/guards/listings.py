"""Which of many records are wanted, and in which order. Pure."""

from collections.abc import Iterable

from dupeproof.core.records import Listed
from dupeproof.core.states import State
from dupeproof.errors import ConfigError, KeyInvalid
from dupeproof.guards.results import Entry, listed_entry

LISTED_STATES = ("held", "dead", "failed", "running", "abandoned")
EVERY_NAMESPACE = "*"
MOST_WAITING = 100_000
"""Records that have no end and are read at once. More than that, nobody looks at one by one."""
_FEWEST_DIGITS = 8


class Listing:
    """Takes pages of records, keeps what is wanted."""

    def __init__(
        self, state: str, namespace: str, *, limit: int | None, after: Entry | None, newest_first: bool
    ) -> None:
        if state not in LISTED_STATES:
            raise ConfigError(f"state must be one of {', '.join(LISTED_STATES)}; got {state!r}")
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ConfigError(f"limit must be a whole number of at least 1, or None for all; got {limit!r}")
        if after is not None and not isinstance(after, Entry):
            raise ConfigError(f"after takes the last entry of the page before; got {type(after).__name__}")
        self._state = State(state)
        self._namespace = namespace
        self._limit = limit
        self._after = after
        self._newest_first = newest_first
        self._found: list[Entry] = []
        self.looked_at = 0

    @property
    def is_indexed(self) -> bool:
        return self._state in (State.HELD, State.DEAD)

    def add(self, page: Iterable[Listed]) -> None:
        for each in page:
            self.looked_at += 1
            wanted = self._namespace in (EVERY_NAMESPACE, each.record.namespace)
            if wanted and each.record.situation(each.now) is self._state:
                self._found.append(listed_entry(each))

    def entries(self) -> list[Entry]:
        ordered = sorted(self._found, key=_place, reverse=self._newest_first)
        if self._after is not None:
            last = _place(self._after)
            ordered = [
                each
                for each in ordered
                if (_place(each) < last if self._newest_first else _place(each) > last)
            ]
        return ordered[: self._limit]


def check_digits(digits: object) -> str:
    text = digits.lower() if isinstance(digits, str) else ""
    if not _FEWEST_DIGITS <= len(text) <= 32 or not set(text) <= set("0123456789abcdef"):
        raise KeyInvalid(f"give {_FEWEST_DIGITS} to 32 hexadecimal digits of the digest, as logs show them")
    return text


def _place(entry: Entry) -> tuple[float, str]:
    return (0.0 if entry.since is None else entry.since.timestamp(), entry.digest)
