"""Which topics a consumer reads: one, several, or all whose name fits a pattern. Pure."""

from collections.abc import Sequence
from typing import Any

_FRESH_MS = 10_000
_REFRESH = "topic.metadata.refresh.interval.ms"
_DEAD = ".dead"


class Topics:
    """What to subscribe to. A pattern begins with `^`, as librdkafka has it."""

    def __init__(self, names: Sequence[str]) -> None:
        self.subscribed = list(names)
        self.has_pattern = any(name.startswith("^") for name in self.subscribed)
        self._wants_dead = any(name.rstrip("$").endswith(_DEAD) for name in self.subscribed)

    def __str__(self) -> str:
        return ", ".join(self.subscribed)

    @property
    def named(self) -> list[str]:
        return [name for name in self.subscribed if not name.startswith("^")]

    @property
    def config(self) -> dict[str, Any]:
        """With a pattern, a topic that is made later is noticed within ten seconds, not within five minutes."""
        return {_REFRESH: _FRESH_MS} if self.has_pattern else {}

    def wants(self, topic: str) -> bool:
        """A pattern such as `^orders.*` fits its own dead topics too. What is dead-lettered there must not come back."""
        return topic in self.subscribed or self._wants_dead or not topic.endswith(_DEAD)
