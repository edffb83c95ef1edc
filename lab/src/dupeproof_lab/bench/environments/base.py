"""Where candidates run: a store that is started, emptied, weighed and stopped."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Self


class Environment(AbstractContextManager["Environment"], ABC):
    """Entering starts it; leaving removes all that was ours."""

    store: str
    reopened: bool = False
    """Candidates are opened anew for every round; on a server they stay connected."""
    expected: int = 1_000_000
    """How many ids a candidate that must know beforehand makes room for."""

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
        """Remove what is left of whoever was here before. A server that is not ours is left alone."""

    def next_round(self) -> None:
        """Candidates that stay connected go on with an empty store, where the size of it matters."""

    @abstractmethod
    def size(self) -> int:
        """Bytes in use now."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to stop, unless a environment says otherwise."""
