# Written by tools/twins.py from src/dupeproof/core/contract_async.py; change that file instead.
"""What a store is. The comments are the contract; `dupeproof.testing` checks it on any store.

Batch first: every verb takes many and answers many, in the order given; a single call is a batch of one. Each
item is decided in one atomic step of its own, by the store's clock. A key may stand in a batch twice: the first
one wins. `claim`, `finish`, `fail` and `renew` may be repeated after a lost reply and give the same answer; `mark` must
not be, and for the others the second answer may be `False`.
`False` always means "no longer yours" (or, for `forget` and `unmark`, "there was nothing").
A store that cannot be reached in time raises `StoreUnavailable`; nothing else of its driver gets through.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Filling,
    Finish,
    Found,
    FoundMark,
    Health,
    Kept,
    Listed,
    Mark,
    Release,
    Renew,
    Reservation,
    Sample,
    Stats,
)
from dupeproof.core.sequences import Number, SequenceStats, Verdict


class Purgeable(Protocol):
    """What there is to clean: a store, or tables that are none."""

    def purge(self, limit: int) -> int:
        """Remove at most `limit` expired records and marks; how many went. Never an unexpired one."""
        ...

    def stats(self) -> Stats: ...

    def close(self) -> None:
        """Give up connections. Closing twice is fine."""
        ...


class Store(Purgeable, Protocol):
    """The contract every store keeps."""

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        """Take keys that are free, failed or abandoned; say what the others are. A replay writes nothing."""
        ...

    def finish(self, changes: Sequence[Finish]) -> list[bool]:
        """Store results; the window counts from here."""
        ...

    def fail(self, changes: Sequence[Fail]) -> list[bool]:
        """Open keys for the next attempt, or close them as dead."""
        ...

    def release(self, changes: Sequence[Release]) -> list[bool]:
        """Hand claims back as if they had not been made: the attempt does not count."""
        ...

    def renew(self, changes: Sequence[Renew]) -> list[bool]:
        """Start leases anew from now."""
        ...

    def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        """The records as they are; None for a free key."""
        ...

    def forget(self, keys: Sequence[bytes]) -> list[bool]:
        """Remove records and marks, whoever owns them; the owner's finish will be refused."""
        ...

    def check(self) -> Health:
        """Reach the server, make the schema, try that it can be written to."""
        ...

    def close(self) -> None:
        """Give up connections. Closing twice is fine; so is using the store again, which opens it."""
        ...


@runtime_checkable
class SeenSet(Protocol):
    """Ability: "seen before" marks, apart from the records."""

    def mark(self, marks: Sequence[Mark]) -> list[bool]:
        """Add what is absent or expired; True where it was."""
        ...

    def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        """Take back marks made with these very tokens."""
        ...

    def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]: ...


@runtime_checkable
class Sequenced(Protocol):
    """Ability: one row per producer with the numbers that came."""

    def advance(self, numbers: Sequence[Number]) -> list[Verdict]:
        """Decide each by `core.sequences.decide`, in the order given. Must not be repeated after a lost reply."""
        ...

    def retire(self, keys: Sequence[bytes]) -> list[bool]:
        """Remove the rows of producers; True where there was one."""
        ...

    def sequences(self) -> SequenceStats: ...


@runtime_checkable
class Waitable(Protocol):
    """Ability: notifies when a running key has changed, so that waiting needs no polling."""

    def wait(self, key: bytes, seconds: float) -> None:
        """Return when the key is finished, failed, released or forgotten, or after `seconds`. May return early."""
        ...


@runtime_checkable
class Listable(Protocol):
    """Ability: shows which records there are."""

    def waiting(self, limit: int) -> list[Listed]:
        """Records that have no end: held, dead, or running under hold. By an index, so the size of the store does not
        count. At most `limit`, the oldest first.
        """
        ...

    def find(self, digits: str, limit: int) -> list[bytes]:
        """The digests that begin with these hexadecimal digits, at most `limit`."""
        ...

    def sample(self, limit: int) -> Sample:
        """About `limit` records or, where they stand among other keys, those among so many. Takes as long, however many
        there are.
        """
        ...

    def records(self) -> Iterator[list[Listed]]:
        """All records that are not free, page by page, in any order: a walk over the whole store."""
        ...


class Copies(Protocol):
    """Keeps copies of what another store has committed, so that they can be had faster.

    A place is reserved before the other store is asked, and its time runs from there: the copy is never good for longer
    than what it is a copy of. Places that were reserved and not filled read as empty.
    """

    def reserve(self, places: Sequence[Reservation]) -> list[Kept | None]:
        """What is kept under each key. Where there is nothing at all, a place is reserved."""
        ...

    def fill(self, fillings: Sequence[Filling]) -> None:
        """Fill the places that are still reserved under these tokens, and no others."""
        ...

    def vacate(self, places: Sequence[Reservation]) -> None:
        """Give up the places that are still reserved under these tokens."""
        ...

    def bar(self, keys: Sequence[bytes], milliseconds: int) -> None:
        """Empty these places, and keep them so for that long, or until they are cleared."""
        ...

    def clear(self, keys: Sequence[bytes]) -> None:
        """Empty these places; anyone may reserve them."""
        ...


@runtime_checkable
class KeepsCopies(Protocol):
    """Ability: keeps copies, and so can be the fast tier in front of another store."""

    def copies(self) -> Copies: ...


@runtime_checkable
class Inspectable(Protocol):
    """Ability: has a schema people may want to read before it is applied."""

    def schema(self) -> str: ...
