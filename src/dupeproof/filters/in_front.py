# Written by tools/twins.py from src/dupeproof/filters/in_front_async.py; change that file instead.
"""InFront: a filter before something exact, which then is asked only about what the filter has met."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from dupeproof.filters.local import LocalFilter
from dupeproof.keys.names import Key

T = TypeVar("T")


class Exact(Protocol):
    """Something that knows for sure, such as `Once`."""

    def known(self, keys: Sequence[Key]) -> list[bool]: ...


class InFront:
    """Drops messages that are surely done before you begin with them, and asks the exact guard as little as it can.

        for message in front.unknown(batch, key=lambda m: m.id):
            once.run(message.id, handle, message)

    What `unknown` drops, the guard has confirmed, so it loses nothing. What it lets through is either new or was first
    met by another process: the guard decides that, in the step that claims the id, as it does without a filter.
    So any number of processes may each have a filter of their own, empty at first, and none needs to be kept.

    What it saves is the look-up of ids this process has not met, nearly all of a stream of new ones. It cannot save
    the claim: that must be written anyway. In front of `seen` or `fresh`, which look and write in one step, there is
    nothing to save; use those alone.
    """

    def __init__(self, filter: LocalFilter, exact: Exact) -> None:  # noqa: A002 - what it is
        self._filter = filter
        self._exact = exact

    def unknown(self, items: Iterable[T], key: Callable[[T], Key] | None = None) -> list[T]:
        """The items without those the guard knows, in order. It is asked only if the filter has met any of them."""
        chosen = list(items)
        keys: list[Any] = chosen if key is None else [key(item) for item in chosen]
        doubtful = [each for each, new in zip(keys, self._filter.add_many(keys), strict=True) if not new]
        if not doubtful:
            return chosen
        known = {
            each for each, is_known in zip(doubtful, self._exact.known(doubtful), strict=True) if is_known
        }
        return [item for item, each in zip(chosen, keys, strict=True) if each not in known]
