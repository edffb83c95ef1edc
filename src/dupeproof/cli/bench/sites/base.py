"""Where contenders run: a store that is started, emptied, weighed and stopped."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager


class Site(AbstractContextManager["Site"], ABC):
    """Entering starts it; leaving removes all that was ours."""

    store: str
    expected: int = 1_000_000
    """How many ids a contender that must know beforehand makes room for."""

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    @abstractmethod
    def durability(self) -> str:
        """What a crash leaves, as the server itself is set."""

    @property
    def version(self) -> str | None:
        return None

    @property
    def pids(self) -> list[int]:
        """Its processes, to pin them; none where it has none of its own, or is not ours."""
        return []

    @abstractmethod
    def clean(self) -> None:
        """Before a round: remove what the last one left. A server that is not ours is left alone."""

    @abstractmethod
    def size(self) -> int:
        """Bytes in use now."""

    def __enter__(self) -> "Site":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to stop, unless a site says otherwise."""
