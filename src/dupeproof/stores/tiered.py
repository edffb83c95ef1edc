# Written by tools/twins.py from src/dupeproof/stores/tiered_async.py; change that file instead.
"""Two stores as one: a durable one that decides, and in front of it copies of what it has committed.

The fast tier answers for a key only what the durable tier has committed: a finished record, a mark. Everything else,
and every change, is the durable tier's. So the fast tier may be down, empty, flushed or behind, and nothing but speed is
lost: a copy is made after the commit, in a place reserved before it, whose time runs from the reservation.

Crash points: after the reservation, the place reads as empty until its time is over. After the commit and before the
copy, the same. In `forget`, the places are barred before the durable tier forgets, and cleared after it has: in between
nothing is read from them or put into them, and if it dies there they stay barred for an hour.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from dupeproof.core.events import logger
from dupeproof.core.outcomes import Done, Outcome, Won
from dupeproof.core.protocols import KeepsCopies, SeenSet, Store, ability
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Filling,
    Finish,
    Found,
    FoundMark,
    Health,
    Kept,
    Mark,
    Release,
    Renew,
    Reservation,
    Stats,
)
from dupeproof.core.tokens import new_token
from dupeproof.errors import ConfigError, StoreUnavailable
from dupeproof.stores import copies

T = TypeVar("T")
_BARRED_FOR = 3_600_000
_MOST_OPEN = 100_000
_REST = 5.0
"""Seconds for which a fast tier that failed is left alone."""


class Durable(Store, SeenSet, Protocol):
    """A store that keeps records and marks."""


class TieredStore:
    """`fast` is a store that keeps copies, `durable` any store that keeps records and marks."""

    def __init__(self, fast: Store, durable: Durable) -> None:
        copying = ability(fast, KeepsCopies)  # type: ignore[type-abstract]
        if copying is None:
            raise ConfigError("only Redis can be the fast tier; give its URL first")
        self._fast = fast
        self._copies = copying.copies()
        self._durable = self.wrapped = durable
        self._rest_until = 0.0
        self._first_attempts: dict[bytes, bool] = {}
        """Tokens of open claims that are their keys' first: of others a finish does not know which attempt it ends."""

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        kept = self._reserve([copies.record_place(request) for request in requests])
        answers: list[Any] = [copies.answer(*pair) for pair in zip(kept, requests, strict=True)]
        unknown = [place for place, answer in enumerate(answers) if answer is None]
        if unknown:
            asked = [requests[place] for place in unknown]
            found = self._durable.claim(asked)
            for place, answer in zip(unknown, found, strict=True):
                answers[place] = answer
            self._copy_answers(asked, found)
        return answers

    def finish(self, changes: Sequence[Finish]) -> list[bool]:
        answers = self._durable.finish(changes)
        fillings = [
            Filling(
                copies.record_key(change.key),
                change.token,
                change.window,
                copies.pack(1, change.codec, change.result),
            )
            for change, ours in zip(changes, answers, strict=True)
            if ours and self._was_first(change.token) and len(change.result) <= copies.LARGEST
        ]
        self._offer(fillings, self._copies.fill)
        return answers

    def fail(self, changes: Sequence[Fail]) -> list[bool]:
        answers = self._durable.fail(changes)
        self._vacate(changes)
        return answers

    def release(self, changes: Sequence[Release]) -> list[bool]:
        answers = self._durable.release(changes)
        self._vacate(changes)
        return answers

    def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return self._durable.renew(changes)

    def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        return self._durable.get(keys)

    def forget(self, keys: Sequence[bytes]) -> list[bool]:
        places = [*map(copies.record_key, keys), *map(copies.mark_key, keys)]
        try:
            self._copies.bar(places, _BARRED_FOR)
        except StoreUnavailable as exc:
            raise StoreUnavailable(
                f"nothing was forgotten, because the fast tier must hear of it first: {exc}"
            ) from exc
        answers = self._durable.forget(keys)
        self._offer(places, self._copies.clear)
        return answers

    def mark(self, marks: Sequence[Mark]) -> list[bool]:
        places = [Reservation(copies.mark_key(mark.key), new_token(), mark.window) for mark in marks]
        # A mark with a token may be taken back, which a copy would not hear of.
        copied = [place for place, mark in zip(places, marks, strict=True) if not mark.token]
        kept = self._reserve(copied)
        known = {place.token for place, copy in zip(copied, kept, strict=True) if copy is not None}
        asked = [pair for pair in zip(places, marks, strict=True) if pair[0].token not in known]
        if not asked:
            return [False] * len(marks)
        answers = self._durable.mark([mark for _, mark in asked])
        self._copy_marks([(*pair, fresh) for pair, fresh in zip(asked, answers, strict=True)])
        fresh_places = {place.token for (place, _), fresh in zip(asked, answers, strict=True) if fresh}
        return [place.token in fresh_places for place in places]

    def _copy_marks(self, answered: Sequence[tuple[Reservation, Mark, bool]]) -> None:
        """Those made now, and those the durable tier knew and the fast one did not, for what is left of their time."""
        plain = [(place, mark.key, fresh) for place, mark, fresh in answered if not mark.token]
        if self._resting():
            return
        fillings = [Filling(place.key, place.token, place.window, b"") for place, _, fresh in plain if fresh]
        fillings += self._learnt([(place, key) for place, key, fresh in plain if not fresh])
        self._offer(fillings, self._copies.fill)

    def _learnt(self, known: Sequence[tuple[Reservation, bytes]]) -> list[Filling]:
        try:
            found = self._durable.marks([key for _, key in known]) if known else []
        except StoreUnavailable:
            return []  # the marks are made and the caller must hear of them; only the copies are missing
        return [
            Filling(place.key, place.token, mark.expires_at - mark.now, b"")
            for (place, _), mark in zip(known, found, strict=True)
            if mark is not None and not mark.returnable
        ]

    def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        return self._durable.unmark(marks)

    def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        return self._durable.marks(keys)

    def purge(self, limit: int) -> int:
        return self._durable.purge(limit)

    def stats(self) -> Stats:
        return self._durable.stats()

    def check(self) -> Health:
        """Of the durable tier; the fast one is not needed, but its state is shown."""
        health = self._durable.check()
        try:
            self._copies.clear([bytes(17)])
        except StoreUnavailable as exc:
            fast = f"down: {exc}"
        else:
            fast = "up"
        return replace(health, details={**health.details, "fast_tier": fast})

    def close(self) -> None:
        self._fast.close()
        self._durable.close()

    def _copy_answers(self, requests: Sequence[ClaimRequest], answers: Sequence[Outcome]) -> None:
        """What the durable tier said decides what becomes of the places that were reserved before it was asked."""
        pairs = list(zip(requests, answers, strict=True))
        won = [(request, answer.attempt) for request, answer in pairs if type(answer) is Won]
        for request, attempt in won:
            if attempt == 1:
                self._first_attempts[request.token] = True
        if len(self._first_attempts) > _MOST_OPEN:
            oldest = list(self._first_attempts)[: _MOST_OPEN // 10]  # in one piece: other threads change it
            for token in oldest:
                self._first_attempts.pop(token, None)
        self._vacate([request for request, attempt in won if attempt > 1])
        done = [request for request, answer in pairs if type(answer) is Done]
        if done and not self._resting():
            try:
                found = self._durable.get([request.key for request in done])
            except StoreUnavailable:
                return  # all has been answered; only the copies are missing
            fillings = [copies.of_record(*pair) for pair in zip(done, found, strict=True)]
            self._offer([filling for filling in fillings if filling is not None], self._copies.fill)

    def _vacate(self, items: Sequence[ClaimRequest | Fail | Release]) -> None:
        for item in items:
            self._first_attempts.pop(item.token, None)
        places = [Reservation(copies.record_key(item.key), item.token, 0) for item in items]
        self._offer(places, self._copies.vacate)

    def _reserve(self, places: Sequence[Reservation]) -> list[Kept | None]:
        if places and not self._resting():
            try:
                return self._copies.reserve(places)
            except StoreUnavailable as exc:
                self._rest(exc)
        return [None] * len(places)

    def _offer(self, items: Sequence[T], take: Callable[[Sequence[T]], None]) -> None:
        """The durable tier has committed: what the fast one makes of it is a matter of speed."""
        if items and not self._resting():
            try:
                take(items)
            except StoreUnavailable as exc:
                self._rest(exc)

    def _was_first(self, token: bytes) -> bool:
        return self._first_attempts.pop(token, False)

    def _resting(self) -> bool:
        return time.monotonic() < self._rest_until

    def _rest(self, error: StoreUnavailable) -> None:
        self._rest_until = time.monotonic() + _REST
        logger.warning("The fast tier is left alone for %g s: %s", _REST, error)
