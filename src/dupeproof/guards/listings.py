"""Which of many records are wanted, and in which order. Pure."""

from collections import Counter
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
_MOST_KINDS = 1_000
_ROOM = 1_000


class Listing:
    """Takes pages of records, keeps what is wanted: with a limit, not much more than that many."""

    def __init__(
        self,
        state: str,
        namespace: str,
        *,
        limit: int | None,
        after: Entry | None = None,
        newest_first: bool = False,
        name: str | None = None,
        error: str | None = None,
    ) -> None:
        if state not in LISTED_STATES:
            raise ConfigError(f"state must be one of {', '.join(LISTED_STATES)}; got {state!r}")
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ConfigError(f"limit must be a whole number of at least 1, or None for all; got {limit!r}")
        if after is not None and not isinstance(after, Entry):
            raise ConfigError(f"after takes the last entry of the page before; got {type(after).__name__}")
        self._state = State(state)
        self._kind = (None if namespace == EVERY_NAMESPACE else namespace, name, error)
        self._limit = limit
        self._after = None if after is None else _place_of(after)
        self._newest_first = newest_first
        self._found: list[Listed] = []
        self.looked_at = 0
        self.matching = 0
        """How many are wanted, also beyond the limit."""
        self.kinds: Counter[tuple[str, str, str]] = Counter()
        """What is in this state, by namespace, name and error, for whoever wants to choose."""

    @property
    def is_indexed(self) -> bool:
        return self._state in (State.HELD, State.DEAD)

    def add(self, page: Iterable[Listed]) -> None:
        for each in page:
            self.looked_at += 1
            record = each.record
            if record.situation(each.now) is not self._state:
                continue
            kind = (record.namespace, record.name, record.error)
            if kind in self.kinds or len(self.kinds) < _MOST_KINDS:
                self.kinds[kind] += 1
            wanted = all(one is None or one == other for one, other in zip(self._kind, kind, strict=True))
            if wanted and self._is_behind(each):
                self.matching += 1
                self._found.append(each)
        if self._limit is not None and len(self._found) > 2 * self._limit + _ROOM:
            self._found = self.listed()

    def listed(self) -> list[Listed]:
        return sorted(self._found, key=_place, reverse=self._newest_first)[: self._limit]

    def entries(self) -> list[Entry]:
        return list(map(listed_entry, self.listed()))

    def _is_behind(self, each: Listed) -> bool:
        if self._after is None:
            return True
        place = _place(each)
        return place < self._after if self._newest_first else place > self._after


def check_digits(digits: object) -> str:
    text = digits.lower() if isinstance(digits, str) else ""
    if not _FEWEST_DIGITS <= len(text) <= 32 or not set(text) <= set("0123456789abcdef"):
        raise KeyInvalid(f"give {_FEWEST_DIGITS} to 32 hexadecimal digits of the digest, as logs show them")
    return text


def _place(listed: Listed) -> tuple[int, str]:
    return listed.record.since(listed.now), listed.key.hex()


def _place_of(entry: Entry) -> tuple[int, str]:
    return (0 if entry.since is None else round(entry.since.timestamp() * 1_000), entry.digest)
