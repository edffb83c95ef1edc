"""What the filters inside a process have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from dupeproof import forks
from dupeproof.filters.options import Acceptance, OnceOver
from dupeproof.keys.names import Key, check_key, check_keys

T = TypeVar("T")


class LocalFilter(forks.Locked, ABC):
    """Remembers ids with a small chance of taking a new one for a known one, and none of the reverse."""

    def __init__(self, acceptance: Acceptance) -> None:
        super().__init__()
        self._acceptance = acceptance
        self._over = OnceOver()

    @abstractmethod
    def _add(self, texts: Sequence[str]) -> list[bool]: ...

    @abstractmethod
    def _might_have(self, texts: Sequence[str]) -> list[bool]: ...

    def add(self, key: Key) -> bool:
        """Add the id. True: it was surely not there before. False: it probably was."""
        return self._add([check_key(key)])[0]

    def add_many(self, keys: Iterable[Key]) -> list[bool]:
        """The same for many, in order; of an id that stands in it twice, the first is new. A bad key adds none."""
        return self._add(check_keys(keys))

    def __contains__(self, key: Key) -> bool:
        return self._might_have([check_key(key)])[0]

    def might_have_many(self, keys: Iterable[Key]) -> list[bool]:
        """False: surely not there. True: probably there."""
        return self._might_have(check_keys(keys))

    def seen(self, key: Key) -> bool:
        """Whether the id was there before, wrong for new ones at the accepted rate; adds it in the same step."""
        self._acceptance.check()
        return not self.add(key)

    def fresh(self, items: Iterable[T], key: Callable[[T], Key] | None = None) -> list[T]:
        """The items not there before, in order, each id once; drops new ones at the accepted rate."""
        self._acceptance.check()
        chosen = list(items)
        keys: Iterable[Any] = chosen if key is None else map(key, chosen)
        return [item for item, new in zip(chosen, self.add_many(keys), strict=True) if new]
