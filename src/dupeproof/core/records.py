"""What goes into a store and what comes out of one. Times are whole milliseconds of the store's own clock."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from dupeproof.core.states import State

NO_FINGERPRINT = b""
NOT_REPLAYABLE = ""
NEVER = 0


class Terms(Struct, frozen=True, gc=False):
    """What a guard promises for every claim it makes; written into the record at claim time."""

    namespace: str
    lease: int
    window: int
    hold: bool = False
    max_attempts: int = 0
    """0: no limit."""
    name: str = ""
    """Of the guarded function; kept with the record for people who look at it."""


class ClaimRequest(Struct, frozen=True, gc=False):
    key: bytes
    """16-byte digest of namespace and key. Raw keys never reach a store."""
    token: bytes
    """8 random bytes made by the caller. A claim repeated with its token is answered `Won` again, so a claim
    whose reply was lost can be sent once more."""
    terms: Terms
    fingerprint: bytes = NO_FINGERPRINT
    """16 bytes, or none; compared when both the record and the request have one."""
    kept_key: str = ""
    """The key itself, where the guard keeps keys; else empty."""


class Finish(Struct, frozen=True, gc=False):
    key: bytes
    token: bytes
    window: int
    result: bytes
    codec: str
    """Name of the codec of `result`; `NOT_REPLAYABLE` when the value could not be stored."""
    resolver: bytes = b""
    """When set this is a resolve: allowed without a live claim, and the record gets this token instead, so that
    the owner of before is refused."""


class Fail(Struct, frozen=True, gc=False):
    key: bytes
    token: bytes
    window: int
    error: str
    """Name of the exception's type; never its text, which may hold a secret."""
    dead: bool = False
    hold: bool = False
    """When set the key is held: the work may have happened, so nothing but a person or a lookup opens it again."""
    since: int = 0
    """Since when it is held, where it was before a lookup was asked. From now on unless given."""


class Release(Struct, frozen=True, gc=False):
    key: bytes
    token: bytes
    window: int
    reopen: bool = False
    """When set the record goes, with its count of attempts: allowed without a live claim, refused with one."""


class Renew(Struct, frozen=True, gc=False):
    key: bytes
    token: bytes
    lease: int
    window: int
    taker: bytes = b""
    """When set a held or abandoned key is taken: whoever shows the token it has gets a lease under this one, and asks
    whether the work has happened. If nobody comes back, it is as it was."""
    journal: bytes = b""
    """What is known of the steps of the work from now on; nothing for what was known before. It is kept as the result of a
    record that is not done, through failures and new attempts, until the work is finished."""


class Mark(Struct, frozen=True, gc=False):
    """A "seen before" mark. `token` lets its maker, and nobody else, take it back."""

    key: bytes
    window: int
    token: bytes = b""
    meta: bytes = b""


class FoundMark(Struct, frozen=True, gc=False):
    """A mark and the store's own time when it was read."""

    meta: bytes
    expires_at: int
    now: int
    returnable: bool = False
    """Made with a token, so that its maker may take it back."""


class Reservation(Struct, frozen=True, gc=False):
    """A place among the copies, for `window` from now, that only who knows the token can fill."""

    key: bytes
    token: bytes
    window: int
    fingerprint: bytes = NO_FINGERPRINT


class Filling(Struct, frozen=True, gc=False):
    """What to put into a place; its fingerprint is that of the reservation where none is given.

    It is good for `window` from when the place was reserved, or for as long as was reserved, whichever is less.
    """

    key: bytes
    token: bytes
    window: int
    value: bytes
    fingerprint: bytes | None = None


class Kept(Struct, frozen=True, gc=False):
    value: bytes
    fingerprint: bytes


class Record(Struct, frozen=True, gc=False, kw_only=True):
    """One claimed key as stored. `state` is one of the stored states; see `situation` for what it means now."""

    state: State
    token: bytes
    attempt: int
    fingerprint: bytes
    namespace: str
    hold: bool
    created_at: int
    lease_until: int
    finished_at: int = NEVER
    expires_at: int = NEVER
    """From here on the key is free. `NEVER` for one that is dead, and while a claim under `hold` is open."""
    codec: str = NOT_REPLAYABLE
    result: bytes = b""
    error: str = ""
    window: int = 0
    """What its guard remembers finished keys for."""
    took_over: bool = False
    """Of a running key: its owner before vanished, and the work of that one may have happened. Who hands such a claim back
    leaves the key abandoned, as it was."""
    name: str = ""
    kept_key: str = ""

    def situation(self, now: int) -> State:
        if self.expires_at != NEVER and self.expires_at <= now:
            return State.FREE
        if self.state is State.RUNNING and self.lease_until <= now:
            return State.HELD if self.hold else State.ABANDONED
        return self.state

    @property
    def is_finished(self) -> bool:
        return self.state in (State.DONE, State.RESOLVED)

    def reported(self, now: int) -> str:
        """The situation as people read it: a key that was resolved is done."""
        situation = self.situation(now)
        return str(State.DONE if situation is State.RESOLVED else situation)

    def since(self, now: int) -> int:
        """When it came into its situation; `NEVER` where that is not known."""
        match self.situation(now):
            case State.ABANDONED | State.HELD:
                return self.lease_until
            case State.RUNNING:
                return self.created_at
        return self.finished_at


class Found(Struct, frozen=True, gc=False):
    """A record and the store's own time when it was read."""

    record: Record
    now: int


class Listed(Struct, frozen=True, gc=False):
    """One of many records, with its digest and the store's own time when it was read. Its result is left out."""

    key: bytes
    record: Record
    now: int


class Sample(Struct, frozen=True, gc=False):
    """Some of all records, by chance: those whose digests come first, or which a hash table has first."""

    records: list[Listed]
    share: float
    """Of all, these; 1.0 if there are no others."""


def share_of(first: Sequence[bytes], limit: int) -> float:
    """Of all digests, these first ones of at most `limit`: digests are spread evenly, so the last one says how far they reach."""
    if len(first) < limit:
        return 1.0
    return (int.from_bytes(first[-1], "big") + 1) / 2**128


class Stats(Struct, frozen=True, kw_only=True):
    """What a store holds. Counts of expired rows wait for a purge; stores that expire by themselves have none."""

    marks: int
    records: dict[str, int]
    """Live records by situation: running, abandoned, held, done, failed, dead."""
    expired: int
    inbox: int = 0
    """Live marks of inboxes, where the store shares its database with them."""
    bytes: int | None = None
    """Size on disk or in memory where the store knows it."""


class Health(Struct, frozen=True, kw_only=True):
    """The answer of a store that works: reached, schema in place, writable."""

    store: str
    version: str
    details: dict[str, Any] = {}
